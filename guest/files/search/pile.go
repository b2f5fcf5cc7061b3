//go:build linux

package search

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// batchFiles is the size of a batch. Handing over single files would cost about as much as
	// searching them.
	batchFiles = 16
	// ahead bounds the batches between walk and search, which hold open descriptors.
	ahead = 8
	// noFile stands for a descriptor if only the name matters.
	noFile = -1
)

// file is a file found by the walk, and later its matches.
type file struct {
	path    string
	fd      int
	matches []Match
}

// batch is a run of consecutive files of the walk.
type batch struct {
	files []file
	done  chan struct{} // closed when all files are searched and closed
}

// pile queues the walk's files for parallel search, with one worker for each processor.
type pile struct {
	ctx     context.Context
	next    *batch      // being filled by the walk
	order   chan *batch // in the walk's order
	work    chan *batch // the same, for workers
	workers sync.WaitGroup
}

// newPile returns a pile that calls search for each file, with a buffer. After ctx ends, files are
// closed unsearched.
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

// add queues a file; the pile closes it.
func (p *pile) add(f file) error {
	p.next.files = append(p.next.files, f)
	if len(p.next.files) < batchFiles {
		return nil
	}
	return p.hand()
}

// hand queues the current batch.
func (p *pile) hand() error {
	b := p.next
	p.next = &batch{files: make([]file, 0, batchFiles)}
	b.done = make(chan struct{})
	select {
	case p.order <- b:
		p.work <- b // workers drain the queue even after ctx has ended
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

// end marks the end of the walk.
func (p *pile) end() {
	_ = p.hand() // fails only if the search was stopped
	close(p.order)
	close(p.work)
}
