//go:build linux

package vsock

import "sync"

// chunkSize is the allocation unit for received data. It is small because a guest can make many
// connections hold one.
const chunkSize = 4 << 10

type chunk [chunkSize]byte

// chunkPool keeps chunks for reuse. An idle connection has none.
type chunkPool struct{ sync.Pool }

func newChunkPool() *chunkPool {
	return &chunkPool{sync.Pool{New: func() any { return new(chunk) }}}
}

// fifo is a byte queue that allocates chunks as needed. The caller bounds its size.
type fifo struct {
	chunks []*chunk
	start  int // of the data in the first chunk
	n      int // bytes in all
}

// fill appends up to n bytes from src.
func (f *fifo) fill(pool *chunkPool, src *iov, n int) {
	for n > 0 {
		end := (f.start + f.n) % chunkSize
		if f.start+f.n == len(f.chunks)*chunkSize {
			f.chunks = append(f.chunks, pool.Get().(*chunk))
			end = 0
		}
		k := src.read(f.chunks[len(f.chunks)-1][end:min(chunkSize, end+n)])
		if k == 0 {
			return
		}
		f.n += k
		n -= k
	}
}

// take moves the first bytes to p and returns their number.
func (f *fifo) take(pool *chunkPool, p []byte) (done int) {
	for done < len(p) && f.n > 0 {
		first := f.chunks[0]
		k := copy(p[done:], first[f.start:min(chunkSize, f.start+f.n)])
		done += k
		f.start += k
		f.n -= k
		if f.start == chunkSize {
			f.drop(pool)
		}
	}
	if f.n == 0 {
		f.clear(pool)
	}
	return done
}

// drop returns the first chunk to the pool.
func (f *fifo) drop(pool *chunkPool) {
	pool.Put(f.chunks[0])
	f.chunks[0] = nil
	f.chunks = f.chunks[1:]
	f.start = 0
}

// clear drops all data.
func (f *fifo) clear(pool *chunkPool) {
	for len(f.chunks) > 0 {
		f.drop(pool)
	}
	*f = fifo{}
}
