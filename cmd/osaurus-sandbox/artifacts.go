package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/copyfiles"
)

func newArtifacts() *cobra.Command {
	cmd := noun("artifacts", newArtifactsList(), newArtifactsPath(), newArtifactsSave(), newArtifactsDelete())
	cmd.Aliases = []string{"artifact"}
	return cmd
}

// artifact returns the artifact with the id in arg.
func artifact(ctx context.Context, client *control.Client, arg string) (*controlpb.Artifact, error) {
	id, err := parseID("artifact", arg)
	if err != nil {
		return nil, err
	}
	r, err := client.Artifacts.Show(ctx, &controlpb.ShowArtifactRequest{Id: id})
	if err != nil {
		return nil, err
	}
	return r.Artifact, nil
}

func newArtifactsList() *cobra.Command {
	var conversation string
	return daemonCommand("list [AGENT]", func(ctx context.Context, c *call) error {
		request := &controlpb.ListArtifactsRequest{Agent: c.arg(0), Session: conversation}
		answers := control.Messages(c.Artifacts.List(ctx, request))
		return replyRows(c, answers, (*controlpb.ListArtifactsResponse).GetArtifact, "ID\tCREATED\tAGENT\tCONVERSATION\tSIZE\tNAME\tWHAT", func(f *controlpb.Artifact) []any {
			name := f.Name
			if f.Folder {
				name += "/"
			}
			return []any{f.Id, when(f.Created), f.Agent, f.Session, bytesText(uint64(f.Size)), printable.Clip(name), printable.Clip(f.Description)}
		})
	},
		withFlag(&conversation, "conversation", "list only the artifacts of this conversation"),
		jsonUsage("print JSON, one object per line"))
}

func newArtifactsPath() *cobra.Command {
	return daemonCommand("path ARTIFACT", func(ctx context.Context, c *call) error {
		f, err := artifact(ctx, c.Client, c.args[0])
		return reply(c, f, err, func(w io.Writer, f *controlpb.Artifact) error { return writef(w, "%s\n", f.Path) })
	})
}

func newArtifactsDelete() *cobra.Command {
	var yes bool
	return daemonCommand("delete ARTIFACT...", func(ctx context.Context, c *call) error {
		var list []*controlpb.Artifact
		var names []string
		for _, arg := range c.args {
			f, err := artifact(ctx, c.Client, arg)
			if err != nil {
				return err
			}
			list, names = append(list, f), append(names, printable.Clip(f.Name))
		}
		if err := confirm(ctx, c.console, yes, "delete "+strings.Join(names, ", "), "The files will be gone from this computer."); err != nil {
			return err
		}
		deleted := []int64{}
		var err error
		for _, f := range list {
			if _, err = c.Artifacts.Delete(ctx, &controlpb.DeleteArtifactRequest{Id: f.Id}); err != nil {
				break
			}
			deleted = append(deleted, f.Id)
		}
		return errors.Join(reply(c, map[string][]int64{"deleted": deleted}, nil, nil), err)
	}, withFlag(&yes, "yes", "do not ask for confirmation"))
}

func newArtifactsSave() *cobra.Command {
	return command("save ARTIFACT [FOLDER | -]", func(ctx context.Context, c *call) error {
		if c.json && c.arg(1) == stream {
			return fault.Newf(fault.InvalidArgs, "save artifact", c.args[0], "- and --json cannot be combined").Advise("Standard output can have the file or its path, not both.")
		}
		if err := c.connect(ctx); err != nil {
			return err
		}
		f, err := artifact(ctx, c.Client, c.args[0])
		if err != nil {
			return err
		}
		archive, err := control.ReadChunks(c.Artifacts.Read(ctx, &controlpb.ReadArtifactRequest{Id: f.Id}))
		if err != nil {
			return err
		}
		defer archive.Close()
		if c.arg(1) == stream {
			_, err := copyfiles.Print(ctx, archive, f.Name, c.out)
			return err
		}
		path := filepath.Join(cmp.Or(c.arg(1), "."), f.Name)
		if _, err = os.Lstat(path); err == nil {
			err = fs.ErrExist
		} else {
			_, err = copyfiles.Place(ctx, archive, f.Name, path)
		}
		if err != nil {
			kind := fault.KindOf(err)
			if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
				kind = fault.Rejected
			}
			return fault.New(kind, "save", path, err).Advise("Choose another folder.")
		}
		return reply(c, map[string]string{"path": path}, nil, func(io.Writer, map[string]string) error { return writef(c.err, "%s\n", path) })
	})
}
