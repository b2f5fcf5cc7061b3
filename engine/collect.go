package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// Result is the output and exit status of a command.
type Result struct {
	Stdout, Stderr []byte
	Exit           ExitStatus
}

// Collect reads a command's output to its end and waits for its exit. The request's
// MaxOutputBytes bounds the memory that it needs.
func Collect(ctx context.Context, h Handle) (Result, error) {
	var stdout, stderr bytes.Buffer
	output := h.Output()
	defer output.Close()
	for {
		chunk, err := output.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{}, err
		}
		if chunk.Stream == Stderr {
			stderr.Write(chunk.Data)
		} else {
			stdout.Write(chunk.Data)
		}
	}
	exit, err := h.Exit(ctx)
	return Result{stdout.Bytes(), stderr.Bytes(), exit}, err
}
