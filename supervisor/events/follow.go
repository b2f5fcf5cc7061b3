package events

import (
	"context"
	"iter"

	"osaurus-sandbox/internal/fault"
)

// Follow yields what next finds after a cursor, page by page, and with follow
// without end: also what comes later. Of a cursor, next returns what comes after
// it and where it then stands, and if that was all for now also what is closed
// when there is more.
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
