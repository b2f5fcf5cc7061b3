//go:build linux

package files

import (
	"iter"
	"sync"
)

// ahead yields the pieces that next returns, fetching the next piece while the caller uses the
// last one, so that disk and network work in parallel. It holds at most aheadPieces.
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

// aheadPieces counts the pieces in use, queued and being fetched.
const aheadPieces = 3
