package faultrpc

import (
	"context"

	"connectrpc.com/connect"
)

// Interceptor has a service's handlers answer with faults.
func Interceptor() connect.Interceptor {
	return Converter(func(_ context.Context, _ connect.Spec, err error) error { return Encode(err) })
}

// Converter is an interceptor that converts the errors of a service's handlers, or those that a client's calls
// return. A client's streams return io.EOF too.
type Converter func(ctx context.Context, call connect.Spec, err error) error

// WrapUnary implements connect.Interceptor.
func (c Converter) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, r)
		if err != nil {
			return nil, c(ctx, r.Spec(), err)
		}
		return resp, nil
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (c Converter) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return c.converted(ctx, conn.Spec(), next(ctx, conn))
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (c Converter) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, call connect.Spec) connect.StreamingClientConn {
		return converting{next(ctx, call), ctx, c}
	}
}

func (c Converter) converted(ctx context.Context, call connect.Spec, err error) error {
	if err == nil {
		return nil
	}
	return c(ctx, call, err)
}

// converting is a client's stream whose errors are converted.
type converting struct {
	connect.StreamingClientConn
	ctx context.Context
	by  Converter
}

func (c converting) Send(m any) error {
	return c.by.converted(c.ctx, c.Spec(), c.StreamingClientConn.Send(m))
}

func (c converting) Receive(m any) error {
	return c.by.converted(c.ctx, c.Spec(), c.StreamingClientConn.Receive(m))
}
