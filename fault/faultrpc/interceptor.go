package faultrpc

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
)

// Interceptor has a service's handlers and a client's callers speak of faults:
// what a handler returns is encoded, and what a call returns is decoded.
func Interceptor() connect.Interceptor { return interceptor{} }

type interceptor struct{}

func (interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, r)
		switch {
		case err == nil:
			return resp, nil
		case r.Spec().IsClient:
			return nil, Decode("", "", err)
		}
		return nil, Encode(err)
	}
}

func (interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return Encode(err)
		}
		return nil
	}
}

func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return decoding{next(ctx, spec)}
	}
}

// decoding is a stream whose errors are faults, but for io.EOF.
type decoding struct{ connect.StreamingClientConn }

func (d decoding) Send(m any) error    { return decode(d.StreamingClientConn.Send(m)) }
func (d decoding) Receive(m any) error { return decode(d.StreamingClientConn.Receive(m)) }

func decode(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return Decode("", "", err)
}
