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
	cmd := daemonCommand("mount AGENT FOLDER", `Mount a folder of this computer in an agent's room

In mode review, the agent changes a copy, and the folder stays as it is until you accept: osaurus-sandbox review. In mode read, it
can change nothing. In mode write, it changes the folder itself, and what it writes there may run on this computer.

A mount ends with its time, with its agent, and with the daemon unless you use --keep. It is there at once if the guest runs, and
otherwise as soon as the agent does something.

Folders with keys, passwords and browser profiles are never mounted, nor what they are in, nor the sandbox's own home, nor folders
of the setting mounts.never. Your home folder itself is mounted only with --yes-all-of-it. Nothing in it is hidden then: the agent
can read your keys and the secrets of all agents.`,
		`  osaurus-sandbox mount alice ~/src/app
  osaurus-sandbox mount alice ~/src/app --mode write --for 8h
  osaurus-sandbox mount bob ~/pictures --mode read --at /mnt/pictures --keep
  osaurus-sandbox mount list`, func(ctx context.Context, c *call) (err error) {
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
		withFlag(&length, "for", "how long, such as 8h (default without end)"),
		withFlag(&r.Keep, "keep", "mount it again when the daemon starts"),
		withFlag(&r.Ask, "ask", "ask me to accept the changes when the agent says that it is done"),
		withFlag(&r.AllOfIt, "yes-all-of-it", "mount my home folder itself, with all keys and passwords in it"))
	list := newMountList()
	list.Aliases = []string{"ls"}
	cmd.AddCommand(list)
	return cmd
}

func newMountList() *cobra.Command {
	return daemonCommand("list [AGENT]", "List the folders that are mounted",
		`  osaurus-sandbox mount list
  osaurus-sandbox mount list alice --json`, func(ctx context.Context, c *call) error {
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
	cmd := daemonCommand("unmount AGENT MOUNT", `End the mount of a folder

It is refused while programs use the mount, and while there are changes to review. With --force, programs get errors, and the
changes are discarded. If the guest does not run, changes stay, and are there again when you mount the folder under this name.`,
		`  osaurus-sandbox unmount alice app`, func(ctx context.Context, c *call) error {
			r.Agent, r.Name = c.args[0], c.args[1]
			_, err := c.Mounts.Unmount(ctx, r)
			return reply(c, map[string]string{"agent": r.Agent, "mount": r.Name}, err, nil)
		}, withFlag(&r.Force, "force", "even if programs use it, and discard changes"))
	cmd.Aliases = []string{"umount"}
	return cmd
}
