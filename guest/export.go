package guest

import (
	"bytes"
	"context"
	"errors"
	"io"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// Program is where the guest finds its own program, for helpers.
const Program = "/run/osaurus/guest"

// ExportTar writes a directory of the guest to w as a tar archive: PAX, sorted,
// with extended attributes and hard links; mounts below it are skipped. Equal trees make equal
// archives. Treat the archive as hostile, like all guest output.
func (c *Client) ExportTar(ctx context.Context, dir string, w io.Writer) error {
	return c.help(ctx, "export", dir, nil, w, "export-tar", dir)
}

// help runs the guest's program as its root.
func (c *Client) help(ctx context.Context, op, subject string, in io.Reader, out io.Writer, args ...string) error {
	errs := &head{}
	exit, err := c.Run(ctx, engine.Command{Args: append([]string{Program}, args...), Stdin: in, Stdout: out, Stderr: errs})
	if err != nil {
		return err
	}
	if exit.Status() != 0 {
		kind := fault.Execution
		if in != nil { // which it does not take
			kind = fault.Rejected
		}
		return fault.New(kind, op, subject, errors.New(printable.Clip(errs.String())))
	}
	return nil
}

// head keeps the beginning of what is written.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	_, _ = h.Buffer.Write(b[:min(len(b), max(0, printable.MaxText-h.Len()))])
	return len(b), nil
}
