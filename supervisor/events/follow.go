package events

import (
	"context"
	"iter"

	"osaurus-sandbox/internal/fault"
)

// Follow yields what next finds after a cursor, page by page, and with follow also what
// comes later, until the context ends. Next returns the items after a cursor and the
// cursor after them. If there are no more, it also returns a channel that is closed when
// there are.
func Follow[E, C any](ctx context.Context, cursor C, follow bool, next func(context.Context, C) ([]E, C, <-chan struct{}, error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		for cursor := cursor; ; {
			some, at, arrived, err := next(ctx, cursor)
			if err != nil {
				yield(none, err)
				return
			}
			for _, e := range some {
				if !yield(e, nil) {
					return
				}
			}
			cursor = at
			switch {
			case arrived == nil:
				continue // there may be more
			case !follow:
				return
			}
			select {
			case <-arrived:
			case <-ctx.Done():
				yield(none, fault.Wrap("read events", "", ctx.Err()))
				return
			}
		}
	}
}
