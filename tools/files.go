package tools

import (
	"bytes"
	"context"
	"encoding/hex"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// maxEdit bounds the files that can be edited or compared. Larger ones are rarely written by hand.
const maxEdit = 8 << 20

func (p Path) file() engine.File { return engine.File{Root: p.Root, Path: p.Rel} }

// readAll reads a file of at most maxEdit bytes and returns its digest.
func (c *Call) readAll(ctx context.Context, p Path) (text []byte, digest []byte, err error) {
	var b bytes.Buffer
	r, err := c.room.ReadFile(ctx, p.file(), engine.FilePart{Limit: maxEdit, OrNothing: true}, &b)
	if err != nil {
		return nil, nil, aboutPath(err)
	}
	if r.Truncated {
		return nil, nil, &Failure{
			Kind: fault.Rejected, Field: "path", Expected: "a file of at most 8 MiB",
			Message: p.String() + " is larger than 8 MiB, which is more than is edited. Change it with a program in sandbox_exec (sed, python3)",
		}
	}
	return b.Bytes(), r.SHA256, nil
}

// writeAll writes a text with the options of w.
func (c *Call) writeAll(ctx context.Context, p Path, text []byte, w engine.FileWrite) (engine.FileWritten, error) {
	w.Content = text
	out, err := c.room.WriteFile(ctx, p.file(), w)
	return out, aboutPath(err)
}

// aboutPath adds the argument "path" and what it expects to errors about a file.
func aboutPath(err error) error {
	if err == nil {
		return nil
	}
	var expected string
	switch kind := fault.KindOf(err); {
	case kind == fault.NotFound:
		expected = "a file or folder that is there"
	case kind == fault.InvalidArgs:
		expected = "the path of a file, over folders and links that stay inside of where tools may work"
	case kind == fault.Rejected && fault.AdviceOf(err) == "": // an error with advice is not about the file
		expected = "a regular file that your user may read and, for changes, write"
	default:
		return err
	}
	f := *failureOf(err)
	f.Field, f.Expected = "path", expected
	return &f
}

func digestText(sum []byte) string { return hex.EncodeToString(sum) }

// binary reports whether bytes are not text.
func binary(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 }
