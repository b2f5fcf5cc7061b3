package control

import (
	"iter"

	"connectrpc.com/connect"
)

// Messages yields the messages of a stream, and at last the error that ended it, if any.
// It takes both results of the call that opens the stream.
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

// sendAll sends a list, one message for each item.
func sendAll[T, M any](stream *connect.ServerStream[M], list iter.Seq2[T, error], message func(T) *M) error {
	for item, err := range list {
		if err == nil {
			err = stream.Send(message(item))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// protos converts the items of a list.
func protos[T, P any](list []T, proto func(T) P) []P {
	result := make([]P, len(list))
	for i, item := range list {
		result[i] = proto(item)
	}
	return result
}
