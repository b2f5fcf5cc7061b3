//go:build linux

package search

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// batchFiles are searched one after the other: to hand over each by itself would
	// cost about as much as to search it.
	batchFiles = 16
	// ahead is how many batches the walk may be ahead of the search: they hold the
	// descriptors of their files.
	ahead = 8
	// noFile is instead of a descriptor where there is nothing to look into.
	noFile = -1
)

// file is one that the walk has come by, and later what was found in it.
type file struct {
	path    string
	fd      int
	matches []Match
}

// batch are files that come one after the other in the walk.
type batch struct {
	files []file
	done  chan struct{} // closed when they are searched, and closed
}

// pile is what the walk has come by and is to be searched, by as many workers as there
// are processors.
type pile struct {
	ctx     context.Context
	next    *batch      // that the walk fills
	order   chan *batch // as the walk has made them
	work    chan *batch // the same, for workers
	workers sync.WaitGroup
}

// newPile returns a pile whose files are searched with search, and a buffer for it.
// When ctx ends what is left is only closed.
func newPile(ctx context.Context, search func(context.Context, *file, []byte)) *pile {
	p := &pile{ctx: ctx, next: new(batch), order: make(chan *batch, ahead), work: make(chan *batch, ahead)}
	for range runtime.GOMAXPROCS(0) {
		p.workers.Go(func() {
			buffer := make([]byte, bufferSize)
			for b := range p.work {
				for i := range b.files {
					if f := &b.files[i]; f.fd != noFile {
						search(ctx, f, buffer)
					}
				}
				b.close()
			}
		})
	}
	return p
}

// add puts a file on the pile, which closes it.
func (p *pile) add(f file) error {
	p.next.files = append(p.next.files, f)
	if len(p.next.files) < batchFiles {
		return nil
	}
	return p.hand()
}

// hand hands the batch over that was being filled.
func (p *pile) hand() error {
	b := p.next
	p.next = &batch{files: make([]file, 0, batchFiles)}
	b.done = make(chan struct{})
	select {
	case p.order <- b:
		p.work <- b // workers take all that there is, also when ctx has ended
		return nil
	case <-p.ctx.Done():
		b.close()
		return p.ctx.Err()
	}
}

// close closes the files of a batch.
func (b *batch) close() {
	for _, f := range b.files {
		if f.fd != noFile {
			_ = unix.Close(f.fd)
		}
	}
	close(b.done)
}

// end says that no more files come.
func (p *pile) end() {
	_ = p.hand() // it only fails when nobody wants to know any more
	close(p.order)
	close(p.work)
}

// searched are the files of the pile, in order, each once it is searched.
func (p *pile) searched() iter.Seq[file] {
	return func(yield func(file) bool) {
		for b := range p.order {
			<-b.done
			for _, f := range b.files {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// wait waits until all files are closed.
func (p *pile) wait() { p.workers.Wait() }
