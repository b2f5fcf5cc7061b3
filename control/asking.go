package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// errLost is in the errors of calls that the daemon did not answer. They may have had an
// effect.
var errLost = errors.New("it has ended, or does not answer")

// asking makes the errors of a client's calls faults.
type asking struct{}

func (asking) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, r)
		if err != nil {
			return nil, decode(ctx, r.Spec(), err)
		}
		return resp, nil
	}
}

func (asking) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (asking) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return decoding{next(ctx, spec), ctx}
	}
}

// decoding is a stream whose errors are faults, except for io.EOF.
type decoding struct {
	connect.StreamingClientConn
	ctx context.Context
}

func (d decoding) Send(m any) error { return decode(d.ctx, d.Spec(), d.StreamingClientConn.Send(m)) }
func (d decoding) Receive(m any) error {
	return decode(d.ctx, d.Spec(), d.StreamingClientConn.Receive(m))
}

// decode turns the error of a call into a fault.
func decode(ctx context.Context, spec connect.Spec, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if strings.Contains(err.Error(), "invalid UTF-8") { // which protobuf cannot carry
		return fault.New(fault.InvalidArgs, "ask the daemon", "", errors.New("a text is not UTF-8")).
			Advise("Rename a file, or copy the folder that it is in; put a command into a script in the workspace and run that.")
	}
	if cause := faultrpc.Broke(err); cause != nil && ctx.Err() == nil {
		call := spec.Procedure[strings.LastIndexByte(spec.Procedure, '.')+1:] // Agents/List
		return fault.New(fault.Unavailable, "ask the daemon for", call, fmt.Errorf("%w: %w", errLost, cause)).
			Advise("See `osaurus-sandbox status`, and why in `osaurus-sandbox logs`.")
	}
	return faultrpc.Decode("", "", err)
}
