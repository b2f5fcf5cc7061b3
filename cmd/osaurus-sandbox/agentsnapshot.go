package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
)

// stopUsage is the help of --stop.
const stopUsage = "end what runs in the agent's room, instead of refusing"

func newAgentSnapshot() *cobra.Command {
	return noun("snapshot", `Freeze and restore what an agent installed

A snapshot keeps what an agent has installed or changed outside its home folder. One is made before packages are installed, unless
something runs in the room; the last few of these are kept.`,
		`  osaurus-sandbox snapshot create alice with-postgres
  osaurus-sandbox snapshot diff alice with-postgres
  osaurus-sandbox snapshot restore alice with-postgres`,
		newAgentSnapshotCreate(), newAgentSnapshotList(), newAgentSnapshotDiff(), newAgentSnapshotRestore(), newAgentSnapshotDelete())
}

// changeSnapshot returns a command that changes the snapshots of an agent. Its first word is the action.
func changeSnapshot(r *controlpb.ChangeAgentSnapshotRequest, use, about, examples string, more option) *cobra.Command {
	return daemonCommand(use, about, examples, func(ctx context.Context, c *call) error {
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

func newAgentSnapshotCreate() *cobra.Command {
	r := &controlpb.ChangeAgentSnapshotRequest{}
	return changeSnapshot(r, "create AGENT NAME", `Freeze what an agent has installed so far

Nothing may run in the agent's room meanwhile, not even a shell. Files in /tmp stay.`,
		`  osaurus-sandbox snapshot create alice with-postgres
  osaurus-sandbox snapshot create alice with-postgres --stop`, withFlag(&r.Stop, "stop", stopUsage))
}

func newAgentSnapshotList() *cobra.Command {
	return daemonCommand("list AGENT", "List the snapshots of an agent",
		`  osaurus-sandbox snapshot list alice`, func(ctx context.Context, c *call) error {
			r, err := c.Snapshots.List(ctx, &controlpb.ListAgentSnapshotsRequest{Agent: c.args[0]})
			return replyTable(c, r, err, "NAME\tMADE", r.GetSnapshots(), func(s *controlpb.AgentSnapshot) []any {
				return []any{printable.Clip(s.Name), when(s.Made)}
			})
		})
}

func newAgentSnapshotDiff() *cobra.Command {
	return daemonCommand("diff AGENT SNAPSHOT", `Show what an agent has changed since a snapshot

Each line is a path with + (added), ~ (changed) or - (deleted). A path with a slash at the end is a folder with everything in it.
At most 2,000 paths are shown.`,
		`  osaurus-sandbox snapshot diff alice with-postgres
  osaurus-sandbox snapshot diff alice with-postgres --json | jq -r .changes[]`, func(ctx context.Context, c *call) error {
			r, err := c.Snapshots.Diff(ctx, &controlpb.DiffAgentSnapshotRequest{Agent: c.args[0], Name: c.args[1]})
			return replyTable(c, r, err, "", r.GetChanges(), func(change string) []any { return []any{change} })
		})
}

func newAgentSnapshotRestore() *cobra.Command {
	r := &controlpb.ChangeAgentSnapshotRequest{}
	return changeSnapshot(r, "restore AGENT SNAPSHOT", `Go back to a snapshot

What the agent has installed or changed outside its home folder becomes what it was. What it is now is kept as an automatic
snapshot, so that you can undo this. Its home folder stays as it is.`,
		`  osaurus-sandbox snapshot restore alice with-postgres
  osaurus-sandbox snapshot restore alice before-install-20261127-140000.123 --stop`, withFlag(&r.Stop, "stop", stopUsage))
}

func newAgentSnapshotDelete() *cobra.Command {
	return changeSnapshot(&controlpb.ChangeAgentSnapshotRequest{}, "delete AGENT SNAPSHOT", `Delete a snapshot

The agent's files stay as they are now. Space is freed when no other snapshot and no fork needs it.`,
		`  osaurus-sandbox snapshot delete alice with-postgres`, asks(func(args []string) (string, string) {
			return "delete snapshot " + args[1], "You will not be able to go back to it."
		}))
}

func newAgentFork() *cobra.Command {
	r := &controlpb.ForkAgentRequest{}
	return daemonCommand("fork AGENT NAME [KEY=VALUE...]", `Create an agent that has what another one has

The new agent has the other's settings, a copy of its home folder, and what it installed or changed outside of that. From then on
neither sees the other's changes. It has no secrets unless you use --secrets, and no plugins; install these again, and also what is
in ~/.venv, ~/.cache and ~/.osaurus/node_workspace. If you interrupt it, nothing is left.`,
		`  osaurus-sandbox agent fork alice bob
  osaurus-sandbox agent fork alice bob network=none --stop
  osaurus-sandbox agent fork alice bob --from 17`, func(ctx context.Context, c *call) (err error) {
			r.Agent, r.Name = c.args[0], c.args[1]
			if r.Settings, err = assignments(c.args[2:]); err != nil {
				return err
			}
			agent, show := (*controlpb.Agent)(nil), showProgress(c.err)
			for m, failed := range control.Messages(c.Agents.Fork(ctx, r)) {
				if err = failed; err != nil {
					break
				}
				agent = m.Agent
				show(progress.Event{Step: "copy the home folder", Done: int64(m.Copied), Finished: m.Agent != nil})
			}
			return reply(c, agent, err, printAgent)
		},
		withFlag(&r.Stop, "stop", stopUsage), withFlag(&r.Call, "from", "copy the home folder as it was after this call: see history"), withFlag(&r.Secrets, "secrets", "copy its secrets too, except those that are bound to hosts"))
}
