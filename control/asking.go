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

// decode turns the error of a call into a fault, except for io.EOF of a stream.
func decode(ctx context.Context, spec connect.Spec, err error) error {
	if errors.Is(err, io.EOF) {
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
