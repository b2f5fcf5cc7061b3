package tools

import (
	"context"
	"strings"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

type writeIn struct {
	Path    string `json:"path" jsonschema:"relative to your home folder; folders above it are made" limit:"minlen=1"`
	Content string `json:"content" jsonschema:"all of the file; may be empty"`
	Mode    string `json:"mode,omitempty" limit:"enum=overwrite|append,default=overwrite"`
}

type writeOut struct {
	Path   string `json:"path"`
	Size   int    `json:"size" jsonschema:"bytes that were written"`
	Action string `json:"action" jsonschema:"create or update"`
	Mode   string `json:"mode"`
	Diff   string `json:"diff,omitempty"`
	Cut    bool   `json:"diff_truncated,omitempty"`
	Before string `json:"before_content_sha256,omitempty"`
	After  string `json:"content_sha256,omitempty"`
}

// newWrite makes sandbox_write_file.
func newWrite(rooms Rooms) Tool {
	return inRoom(rooms, Spec{
		Name: "sandbox_write_file", Title: "Write a file", Gate: Exec, Lean: true, Budget: fileTime + bootTime,
		Hints:       Hints{Destructive: true},
		Description: `Write a text file: all of it at once (the old one stays if anything goes wrong), or with mode append to its end. To change a part of a file, call sandbox_edit_file.`,
	}, func(ctx context.Context, c *Call, in writeIn) (writeOut, error) {
		p, err := c.path(in.Path)
		if err != nil {
			return writeOut{}, err
		}
		if p.Rel == "." || strings.HasSuffix(in.Path, "/") {
			return writeOut{}, wrongArgument("path", "the path of a file", "%s is a folder", quoted(in.Path))
		}
		out := writeOut{Path: p.String(), Size: len(in.Content), Mode: in.Mode, Action: "update"}
		if in.Mode == "append" {
			w, err := c.writeAll(ctx, p, []byte(in.Content), engine.FileWrite{Append: true, Parents: true})
			if w.Created {
				out.Action = "create"
			}
			return out, err
		}
		before, digest, err := c.readAll(ctx, p)
		if err != nil && failureOf(err).Kind != fault.NotFound && failureOf(err).Kind != fault.Rejected {
			return writeOut{}, err
		} // too large to compare, or not readable: replace it anyway
		compared := (err == nil || failureOf(err).Kind == fault.NotFound) && len(in.Content) <= maxEdit
		w, err := c.writeAll(ctx, p, []byte(in.Content), engine.FileWrite{Parents: true, IfSHA256: digest})
		if err != nil {
			return writeOut{}, err
		}
		if w.Created {
			out.Action = "create"
		}
		out.Before, out.After = digestText(digest), digestText(w.SHA256)
		switch {
		case !compared:
			c.Warn("there is no diff: the old or new file is larger than 8 MiB or cannot be read")
		case !binary(before):
			out.Diff, out.Cut = Diff(out.Path, string(before), in.Content)
		}
		return out, nil
	})
}
