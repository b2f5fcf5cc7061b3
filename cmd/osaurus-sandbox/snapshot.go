package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/machine"
)

func newSandbox() *cobra.Command {
	return noun("sandbox", `Save and restore the state of the whole sandbox

A snapshot has the guest's disk, the workspace with the home folders of agents, and the agents with their settings. Secrets, memory,
tasks and settings of the sandbox are not in it. Snapshots are in the folder snapshots of the home.`,
		`  osaurus-sandbox sandbox snapshot create before-upgrade
  osaurus-sandbox sandbox snapshot restore before-upgrade`,
		noun("snapshot", "Make, list, restore and delete snapshots of the whole sandbox",
			`  osaurus-sandbox sandbox snapshot list`, newSnapshotCreate(), newSnapshotList(), newSnapshotRestore(), newSnapshotDelete()))
}

func newSnapshotCreate() *cobra.Command {
	var stop bool
	return daemonCommand("create NAME", `Make a snapshot of the whole sandbox

Where the file system can share blocks (APFS, Btrfs, XFS), it takes a moment and no space, and the guest goes on: its disk is frozen
for that moment, and files in the workspace are copied while programs may write to them. Elsewhere the guest is stopped while its
disk is copied, without holes, and started again. With --stop, that is always so: then disk and workspace are of one moment.

Ctrl-C leaves nothing behind.`,
		`  osaurus-sandbox sandbox snapshot create before-upgrade
  osaurus-sandbox sandbox snapshot create friday --stop`, func(ctx context.Context, c *call) error {
			made, err := followBackup(c, control.Messages(c.Backups.Create(ctx, &controlpb.CreateSnapshotRequest{Name: c.args[0], Stop: stop})))
			return reply(c, made, err, printSnapshot)
		}, withFlag(&stop, "stop", "stop the guest meanwhile, even if its disk could be frozen"))
}

func newSnapshotList() *cobra.Command {
	return daemonCommand("list", "List the snapshots, oldest first", `  osaurus-sandbox sandbox snapshot list`, func(ctx context.Context, c *call) error {
		r, err := c.Backups.List(ctx, &controlpb.ListSnapshotsRequest{})
		if broken := r.GetBroken(); len(broken) > 0 {
			writef(c.err, "note: these cannot be read: %s\n", strings.Join(broken, ", "))
		}
		return replyTable(c, r, err, "NAME\tCREATED\tSIZE\tAGENTS", r.GetSnapshots(), func(s *controlpb.Snapshot) []any {
			return []any{s.Name, s.Created.AsTime().Local().Format(time.DateTime), snapshotSize(s), strings.Join(s.Agents, ", ")}
		})
	})
}

func newSnapshotRestore() *cobra.Command {
	var other, yes bool
	return command("restore NAME", `Restore a snapshot of the whole sandbox

Replaces the guest's disk, the workspace and the agents by those of the snapshot, and restarts the daemon. What is there now becomes
the snapshot before-restore, in place of an earlier one: restoring that undoes this. Agents that the snapshot does not have are gone
with their memory and tasks, also after before-restore is restored. Agents keep their secrets.

A snapshot that needs another pack or toolbox is refused. With --other-pack, home folders are restored, and what agents had
installed is lost. If this command is interrupted, nothing has changed, or the next start of the daemon finishes it.`,
		`  osaurus-sandbox sandbox snapshot restore before-upgrade
  osaurus-sandbox sandbox snapshot restore before-restore --yes`, func(ctx context.Context, c *call) error {
			if err := c.connect(ctx, "--"+restFlag); err != nil {
				return err
			}
			ran, err := confirmRestore(ctx, c, yes)
			if err != nil {
				return err
			}
			restored, err := followBackup(c, control.Messages(c.Backups.Restore(ctx, &controlpb.RestoreSnapshotRequest{Name: c.args[0], OtherPack: other})))
			if err == nil {
				err = restarted(ctx, c, ran)
			}
			return reply(c, restored, err, printSnapshot)
		},
		withFlag(&other, "other-pack", "restore it even if it needs another pack or toolbox"),
		withFlag(&yes, "yes", "do not ask for confirmation"))
}

// confirmRestore asks, and says which agents are lost. It reports whether a guest runs.
func confirmRestore(ctx context.Context, c *call, yes bool) (ran bool, err error) {
	kept, err := c.Backups.List(ctx, &controlpb.ListSnapshotsRequest{})
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(kept.Snapshots, func(s *controlpb.Snapshot) bool { return s.Name == c.args[0] })
	if i < 0 {
		return false, fault.Newf(fault.NotFound, "restore snapshot", c.args[0], "no such snapshot").Advise("List them: osaurus-sandbox sandbox snapshot list.")
	}
	now, err := c.Agents.List(ctx, &controlpb.ListAgentsRequest{})
	if err != nil {
		return false, err
	}
	status, err := answer(c.Status(ctx, &controlpb.StatusRequest{}))
	if err != nil {
		return false, err
	}
	var lost []string
	for _, a := range now.Agents {
		if !slices.Contains(kept.Snapshots[i].Agents, a.Name) {
			lost = append(lost, a.Name)
		}
	}
	loss := "All that runs ends. Disk, workspace and agents become those of " + ago(kept.Snapshots[i].Created.AsTime()) + " ago. What is there now becomes the snapshot before-restore."
	if len(lost) > 0 {
		loss += " These agents will be gone, with their memory and tasks: " + strings.Join(lost, ", ") + "."
	}
	return machine.State(status.State).HasGuest(), confirm(ctx, c.console, yes, "restore "+c.args[0], loss)
}

// restarted connects to a new daemon when the old one has ended, and starts the guest again if one ran.
func restarted(ctx context.Context, c *call, ran bool) error {
	home, err := config.FindHome()
	if err != nil {
		return err
	}
	if err := released(ctx, home); err != nil {
		return err
	}
	c.Close()
	if err := c.connect(ctx, "--"+restFlag); err != nil || !ran {
		return err
	}
	_, err = withProgress(ctx, c, func() (*controlpb.Status, error) { return answer(c.Up(ctx, &controlpb.UpRequest{})) })
	return err
}

func newSnapshotDelete() *cobra.Command {
	return daemonCommand("delete NAME", "Delete a snapshot", `  osaurus-sandbox sandbox snapshot delete before-upgrade --yes`, func(ctx context.Context, c *call) error {
		_, err := c.Backups.Delete(ctx, &controlpb.DeleteSnapshotRequest{Name: c.args[0]})
		return reply(c, map[string]string{"snapshot": c.args[0]}, err, nil)
	}, asks(func(args []string) (string, string) {
		return "delete " + args[0], "The snapshot will be gone. The sandbox stays as it is."
	}))
}

// backupMessage is a message of a call that makes or restores a snapshot.
type backupMessage interface {
	GetProgress() *controlpb.BackupProgress
	GetSnapshot() *controlpb.Snapshot
}

// followBackup shows progress and returns the snapshot that the last message has.
func followBackup[M backupMessage](c *call, messages iter.Seq2[M, error]) (last *controlpb.Snapshot, err error) {
	show := showProgress(c.err)
	for m, err := range messages {
		if err != nil {
			if terminalWidth(c.err) > 0 {
				fmt.Fprint(c.err, clearLine)
			}
			return nil, err
		}
		if p := m.GetProgress(); p != nil {
			show(progress.Event{Step: p.Step, Done: p.Done, Total: p.Total, Finished: p.Finished, Note: p.Note})
		}
		last = m.GetSnapshot()
	}
	return last, nil
}

func snapshotSize(s *controlpb.Snapshot) string {
	return fmt.Sprintf("%.1f GB", gigabytes(uint64(s.DiskBytes+s.WorkspaceBytes)))
}

func printSnapshot(w io.Writer, s *controlpb.Snapshot) error {
	table := newTable(w)
	table.field("snapshot", s.GetName())
	table.field("created", s.GetCreated().AsTime().Local().Format(time.DateTime))
	table.field("size", snapshotSize(s))
	table.field("agents", strings.Join(s.GetAgents(), ", "))
	return table.Flush()
}
