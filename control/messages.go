package control

import (
	"cmp"
	"io"
	"iter"
	"slices"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
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

// reporting returns a function that sends the progress of a call. A client that misses it gets the
// answer, or has disconnected.
func reporting[M any](stream *connect.ServerStream[M], message func(*controlpb.ProgressEvent) *M) progress.Func {
	shared := &sharedStream[M]{stream: stream}
	return func(e progress.Event) {
		_ = shared.Send(message(&controlpb.ProgressEvent{
			Step: e.Step, Done: e.Done, Total: e.Total, Finished: e.Finished, Note: printable.Clip(e.Note),
		}))
	}
}

// protos converts the items of a list.
func protos[T, P any](list []T, proto func(T) P) []P {
	result := make([]P, len(list))
	for i, item := range list {
		result[i] = proto(item)
	}
	return result
}

// optional parses a text that may be empty.
func optional[T ~string](text string, parse func(string) (T, error)) (T, error) {
	if text == "" {
		return "", nil
	}
	return parse(text)
}

// parseAll parses the items of a list.
func parseAll[P, T any](protos []P, parse func(P) (T, error)) ([]T, error) {
	list := make([]T, len(protos))
	for i, item := range protos {
		var err error
		if list[i], err = parse(item); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// names converts a list of names, or of other texts with a type of their own.
func names[S ~string](list []S) []string {
	return protos(list, func(name S) string { return string(name) })
}

// inChunks returns a writer that sends what is written in messages of a bounded size.
func inChunks(send func([]byte) error) io.Writer { return chunks(send) }

type chunks func([]byte) error

func (c chunks) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, chunk) {
		if err := c(part); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// sendingChunks returns a writer that sends what is written.
func sendingChunks(stream interface{ Send(*controlpb.Chunk) error }) io.Writer {
	return inChunks(func(b []byte) error { return stream.Send(&controlpb.Chunk{Data: b}) })
}

// ReadChunks returns the bytes of a stream. It takes both results of the call that opens the stream.
func ReadChunks(stream *connect.ServerStreamForClient[controlpb.Chunk], err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	return readCloser{received(stream, func() []byte { return stream.Msg().Data }), stream}, nil
}

// pieces reads what next returns, one piece after the other.
type pieces struct {
	next func() ([]byte, error)
	rest []byte
}

func (p *pieces) Read(b []byte) (n int, err error) {
	for len(p.rest) == 0 {
		if p.rest, err = p.next(); err != nil {
			return 0, err
		}
	}
	n = copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// received returns the pieces that the messages of a stream have.
func received(stream interface {
	Receive() bool
	Err() error
}, piece func() []byte) *pieces {
	return &pieces{next: func() ([]byte, error) {
		if stream.Receive() {
			return piece(), nil
		}
		return nil, cmp.Or(stream.Err(), io.EOF)
	}}
}

// readCloser reads from one thing and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}
