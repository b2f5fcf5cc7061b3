//go:build linux

package files

import (
	"iter"
	"sync"
)

// ahead has the pieces that next returns, until it has no more, and gets each while the one
// before is in use: what comes from a disk and what goes over a connection then wait beside each
// other. It holds aheadPieces.
func ahead[T any](next func() (T, bool)) iter.Seq[T] {
	return func(yield func(T) bool) {
		pieces, enough := make(chan T, aheadPieces-2), make(chan struct{})
		var getting sync.WaitGroup
		defer getting.Wait()
		defer close(enough)
		getting.Go(func() {
			defer close(pieces)
			for {
				piece, ok := next()
				if !ok {
					return
				}
				select {
				case pieces <- piece:
				case <-enough:
					return
				}
			}
		})
		for piece := range pieces {
			if !yield(piece) {
				return
			}
		}
	}
}

// aheadPieces is how many pieces are held: in use, waiting, and being got.
const aheadPieces = 3
