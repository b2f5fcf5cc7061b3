package control

import (
	"iter"

	"connectrpc.com/connect"
)

// Messages are those of a stream that a call has begun. The last has the error that ended
// it, or that kept it from beginning, if there is one.
func Messages[M any](stream *connect.ServerStreamForClient[M], err error) iter.Seq2[*M, error] {
	return func(yield func(*M, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		defer stream.Close()
		for stream.Receive() {
			if !yield(stream.Msg(), nil) {
				return
			}
		}
		if err := stream.Err(); err != nil {
			yield(nil, err)
		}
	}
}
