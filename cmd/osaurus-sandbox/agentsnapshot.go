package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
)

// stopUsage is the help of --stop.
const stopUsage = "end what runs in the agent's room, instead of refusing"

func newAgentSnapshot() *cobra.Command {
	create, restore := &controlpb.ChangeAgentSnapshotRequest{}, &controlpb.ChangeAgentSnapshotRequest{}
	return noun("snapshot",
		changeSnapshot(create, "create AGENT NAME", withFlag(&create.Stop, "stop", stopUsage)),
		daemonCommand("list AGENT", func(ctx context.Context, c *call) error {
			r, err := c.Snapshots.List(ctx, &controlpb.ListAgentSnapshotsRequest{Agent: c.args[0]})
			return replyTable(c, r, err, "NAME\tMADE", r.GetSnapshots(), func(s *controlpb.AgentSnapshot) []any {
				return []any{printable.Clip(s.Name), when(s.Made)}
			})
		}),
		daemonCommand("diff AGENT SNAPSHOT", func(ctx context.Context, c *call) error {
			r, err := c.Snapshots.Diff(ctx, &controlpb.DiffAgentSnapshotRequest{Agent: c.args[0], Name: c.args[1]})
			return replyTable(c, r, err, "", r.GetChanges(), func(change string) []any { return []any{change} })
		}),
		changeSnapshot(restore, "restore AGENT SNAPSHOT", withFlag(&restore.Stop, "stop", stopUsage)),
		changeSnapshot(&controlpb.ChangeAgentSnapshotRequest{}, "delete AGENT SNAPSHOT", asks("delete snapshot SNAPSHOT", "You will not be able to go back to it.")))
}

// changeSnapshot returns a command that changes the snapshots of an agent. Its first word is the action.
func changeSnapshot(r *controlpb.ChangeAgentSnapshotRequest, use string, more option) *cobra.Command {
	return daemonCommand(use, func(ctx context.Context, c *call) error {
		r.Action, _, _ = strings.Cut(use, " ")
		r.Agent, r.Name = c.args[0], c.args[1]
		answer, err := c.Snapshots.Change(ctx, r)
		return reply(c, answer, err, func(w io.Writer, answer *controlpb.ChangeAgentSnapshotResponse) error {
			if answer.Snapshot == "" || answer.Snapshot == r.Name {
				return nil
			}
			return writef(w, "To undo this: osaurus-sandbox snapshot restore %s %s\n", r.Agent, printable.Clip(answer.Snapshot))
		})
	}, more)
}

func newAgentFork() *cobra.Command {
	r := &controlpb.ForkAgentRequest{}
	return daemonCommand("fork AGENT NAME [KEY=VALUE...]", func(ctx context.Context, c *call) (err error) {
		r.Agent, r.Name = c.args[0], c.args[1]
		if r.Settings, err = assignments(c.args[2:]); err != nil {
			return err
		}
		made, err := withProgress(c, control.Messages(c.Agents.Fork(ctx, r)))
		return reply(c, made.GetAgent(), err, printAgent)
	},
		withFlag(&r.Stop, "stop", stopUsage), withFlag(&r.Call, "from", "copy the home folder as it was after this call: see history"), withFlag(&r.Secrets, "secrets", "copy its secrets too, except those that are bound to hosts"))
}
