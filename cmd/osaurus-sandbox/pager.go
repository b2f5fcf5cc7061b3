package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"osaurus-sandbox/internal/fault"
)

// paged runs show with a writer to $PAGER, or to less, if this program writes to a terminal. An empty
// PAGER and "cat" are none.
func paged(ctx context.Context, c *call, show func(io.Writer) error) error {
	pager, set := os.LookupEnv("PAGER")
	if !set {
		if _, err := exec.LookPath("less"); err == nil {
			pager = "less"
		}
	}
	if terminalWidth(c.out) == 0 || pager == "" || pager == "cat" {
		return show(c.out)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", pager)
	cmd.Stdout, cmd.Stderr, cmd.Env = c.out, c.err, os.Environ()
	if _, set := os.LookupEnv("LESS"); !set {
		cmd.Env = append(cmd.Env, "LESS=FRX") // colours, and no pager for what fits
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fault.New(fault.Unavailable, "run pager", pager, err).Advise("Set PAGER to another, or to cat.")
	}
	failed := show(in)
	if errors.Is(failed, os.ErrClosed) || errors.Is(failed, syscall.EPIPE) {
		failed = nil // the person has seen enough
	}
	_ = in.Close()
	_ = cmd.Wait() // the person's own business
	return failed
}
