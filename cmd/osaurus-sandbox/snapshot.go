package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newSandbox() *cobra.Command {
	return noun("sandbox", noun("snapshot", newSnapshotCreate(), newSnapshotList(), newSnapshotRestore(), newSnapshotDelete()))
}

func newSnapshotCreate() *cobra.Command {
	var stop bool
	return daemonCommand("create NAME", func(ctx context.Context, c *call) error {
		made, err := withProgress(c, control.Messages(c.Backups.Create(ctx, &controlpb.CreateSnapshotRequest{Name: c.args[0], Stop: stop})))
		return reply(c, made.GetSnapshot(), err, nil)
	}, withFlag(&stop, "stop", "stop the guest meanwhile, even if its disk could be frozen"))
}

func newSnapshotList() *cobra.Command {
	return daemonCommand("list", func(ctx context.Context, c *call) error {
		r, err := c.Backups.List(ctx, &controlpb.ListSnapshotsRequest{})
		return replyTable(c, r, err, "NAME\tCREATED\tDISK\tAGENTS", r.GetSnapshots(), func(s *controlpb.Snapshot) []any {
			if s.Created == nil {
				return []any{s.Name, "it cannot be read", "", ""}
			}
			return []any{s.Name, when(s.Created), fmt.Sprintf("%.1f GB", gigabytes(uint64(s.Bytes))), strings.Join(s.Agents, ", ")}
		})
	})
}

func newSnapshotRestore() *cobra.Command {
	var other bool
	return daemonCommand("restore NAME", func(ctx context.Context, c *call) error {
		restored, err := withProgress(c, control.Messages(c.Backups.Restore(ctx, &controlpb.RestoreSnapshotRequest{Name: c.args[0], OtherPack: other})))
		if err == nil {
			err = nextDaemon(ctx, c)
		}
		return reply(c, restored.GetSnapshot(), err, nil)
	},
		withFlag(&other, "other-pack", "restore it even if it needs another pack or toolbox"),
		asks("restore NAME",
			"All that runs ends. Agents that the snapshot does not have will be gone, with their memory and tasks. What is there now becomes the snapshot before-restore."))
}

// nextDaemon connects to a new daemon when the old one has ended: it finishes the restore.
func nextDaemon(ctx context.Context, c *call) error {
	home, err := config.FindHome()
	if err == nil {
		err = released(ctx, home)
	}
	if err != nil {
		return err
	}
	c.Close()
	return c.connect(ctx)
}

func newSnapshotDelete() *cobra.Command {
	return daemonCommand("delete NAME", func(ctx context.Context, c *call) error {
		_, err := c.Backups.Delete(ctx, &controlpb.DeleteSnapshotRequest{Name: c.args[0]})
		return reply(c, map[string]string{"snapshot": c.args[0]}, err, nil)
	}, asks("delete NAME", "The snapshot will be gone. The sandbox stays as it is."))
}
