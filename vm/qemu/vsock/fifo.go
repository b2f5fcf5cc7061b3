//go:build linux

package vsock

import "math/bits"

// fifo is a byte queue. Its ring is allocated only while it holds bytes, so an idle connection has none.
type fifo struct {
	ring  []byte
	start int // of the data
	n     int // bytes in all
}

// fill appends n bytes from src.
func (f *fifo) fill(src *iov, n int) {
	if all := f.n + n; len(f.ring) < all {
		ring := make([]byte, 1<<bits.Len(uint(all-1)))
		f.n = f.take(ring[:f.n])
		f.ring, f.start = ring, 0
	}
	for n > 0 {
		end := (f.start + f.n) % len(f.ring)
		k := src.read(f.ring[end:min(len(f.ring), end+n)])
		if k == 0 {
			return
		}
		f.n += k
		n -= k
	}
}

// take moves the first bytes to p and returns their number.
func (f *fifo) take(p []byte) (done int) {
	for done < len(p) && f.n > 0 {
		k := copy(p[done:], f.ring[f.start:min(len(f.ring), f.start+f.n)])
		done += k
		f.start = (f.start + k) % len(f.ring)
		f.n -= k
	}
	if f.n == 0 {
		*f = fifo{}
	}
	return done
}
