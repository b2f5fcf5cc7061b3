package main

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newMount() *cobra.Command {
	r := &controlpb.MountFolderRequest{}
	var length time.Duration
	cmd := daemonCommand("mount AGENT FOLDER", func(ctx context.Context, c *call) (err error) {
		r.Agent = c.args[0]
		if r.Folder, err = filepath.Abs(c.args[1]); err != nil {
			return fault.New(fault.InvalidArgs, "mount", c.args[1], err)
		}
		if length != 0 {
			r.For = durationpb.New(length)
		}
		made, err := c.Mounts.Mount(ctx, r)
		return reply(c, made.GetMount(), err, func(w io.Writer, m *controlpb.Mount) error {
			writef(w, "%s is %s of %s, for %s\n", m.Folder, m.At, m.Agent, m.Mode)
			if m.Mode == "review" {
				writef(c.err, "See what it changes: osaurus-sandbox review %s %s\n", m.Agent, m.Name)
			}
			return nil
		})
	},
		withFlag(&r.At, "at", "where in the room, below /mnt or the agent's home (default /mnt/NAME)"),
		withFlag(&r.Name, "name", "the mount's name (default the folder's)"),
		withFlag(&r.Mode, "mode", "review, read or write (default review)"),
		withFlag(&length, "for", "how long, such as 8h (default no limit)"),
		withFlag(&r.Keep, "keep", "mount it again when the daemon starts"),
		withFlag(&r.Ask, "ask", "ask me to accept the changes when the agent says that it is done"),
		withFlag(&r.AllOfIt, "yes-all-of-it", "mount my home folder itself, with all keys and passwords in it"))
	list := newMountList()
	list.Aliases = []string{"ls"}
	cmd.AddCommand(list)
	return cmd
}

func newMountList() *cobra.Command {
	return daemonCommand("list [AGENT]", func(ctx context.Context, c *call) error {
		r, err := c.Mounts.List(ctx, &controlpb.ListMountsRequest{Agent: c.arg(0)})
		return replyTable(c, r, err, "AGENT\tNAME\tMODE\tFOLDER\tAT\tUNTIL\tSTATE", r.GetMounts(), func(m *controlpb.Mount) []any {
			return []any{m.Agent, m.Name, m.Mode, m.Folder, m.At, mountEnd(m), mountState(m)}
		})
	})
}

// mountEnd says when a mount ends.
func mountEnd(m *controlpb.Mount) string {
	switch {
	case m.Until != nil:
		return when(m.Until)
	case m.Keep:
		return "kept"
	}
	return "the daemon ends"
}

// mountState returns a mount's state, with what is wrong.
func mountState(m *controlpb.Mount) string {
	if m.Trouble != "" {
		return m.State + ": " + m.Trouble
	}
	return m.State
}

func newUnmount() *cobra.Command {
	r := &controlpb.UnmountFolderRequest{}
	cmd := daemonCommand("unmount AGENT MOUNT", func(ctx context.Context, c *call) error {
		r.Agent, r.Name = c.args[0], c.args[1]
		_, err := c.Mounts.Unmount(ctx, r)
		return reply(c, map[string]string{"agent": r.Agent, "mount": r.Name}, err, nil)
	}, withFlag(&r.Force, "force", "even if programs use it, and discard changes"))
	cmd.Aliases = []string{"umount"}
	return cmd
}
