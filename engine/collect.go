package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// Result is what a command that was waited for has written, and how it ended.
type Result struct {
	Stdout, Stderr []byte
	Exit           ExitStatus
}

// Collect reads a command's output to its end and waits for its exit. What it
// may have to hold in memory is bounded by the request's MaxOutputBytes.
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
