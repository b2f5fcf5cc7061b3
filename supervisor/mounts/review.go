package mounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/machine"
)

const (
	opReview = "review"
	// maxNamed bounds the paths in an event.
	maxNamed = 50
)

// on finds a mount and does something with its changes. It starts the guest if necessary.
func (m *Mounts) on(ctx context.Context, ref, name string, do func(*entry, *review.Review) error) error {
	e, err := m.find(ref, name)
	if err != nil {
		return err
	}
	return e.with(ctx, m.Agents.Room(string(e.Agent)), func(r *review.Review) error { return do(e, r) })
}

// with waits for the turn and does something with the mount's changes, in this room of its agent.
func (e *entry) with(ctx context.Context, room agents.Room, do func(*review.Review) error) error {
	if !e.reviewed() {
		return fault.Newf(fault.Rejected, opReview, string(e.Name), "it is mounted for %s: there is nothing to review", e.Mode)
	}
	end, err := e.of.turn(ctx, opReview, e)
	if err != nil {
		return err
	}
	defer end()
	lease, agent, err := room.Enter(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	root, err := e.open()
	if err == nil {
		err = e.attach(ctx, lease, agent)
	}
	if err != nil {
		return err
	}
	r := e.newReview(root)
	r.Looked = e.looked
	defer func() { e.looked = r.Looked }()
	g, _ := e.of.Guest(lease.Guest) // it has mounts: this is one
	r.Upper, r.View = upper{g, agent.User, e.guestName()}, view(lease.Room(agent.User), e.At)
	return do(r)
}

// Roots returns an agent's reviewed mounts for its checkpoints. Their trees are those of what the agent changed.
func (m *Mounts) Roots(agent config.AgentID) (list []checkpoints.Root) {
	for _, e := range m.entries() {
		if e.Agent == agent && e.reviewed() {
			list = append(list, checkpoints.Root{Name: checkpoints.MountRoot(e.At, e.historyKey()), Folder: e.At, Checkpoint: e.checkpoint, Restore: e.restore})
		}
	}
	return list
}

// checkpoint records what the agent changed. Without a guest, nothing has changed since the last time.
func (e *entry) checkpoint(ctx context.Context) (tree history.Digest, err error) {
	if !e.attached() {
		tree, _ = e.of.History.Head(e.historyKey() + "/upper")
		return tree, nil
	}
	err = e.with(ctx, e.of.Agents.RunningRoom(string(e.Agent)), func(r *review.Review) error {
		tree, err = r.Record(ctx)
		return err
	})
	return tree, err
}

// restore starts the guest if necessary.
func (e *entry) restore(ctx context.Context, to history.Digest, paths []string) (out history.Restored, err error) {
	err = e.with(ctx, e.of.Agents.Room(string(e.Agent)), func(r *review.Review) error {
		out, err = r.Restore(ctx, to, paths)
		return err
	})
	return out, err
}

func (e *entry) newReview(root *os.Root) *review.Review {
	return &review.Review{History: e.of.History, Key: e.historyKey(), Real: root}
}

// resume finishes what a killed daemon had begun to accept.
func (e *entry) resume(ctx context.Context) error {
	if pending, err := e.newReview(nil).Pending(); err != nil || !pending {
		return err
	}
	root, err := e.open()
	if err != nil {
		return err
	}
	return e.newReview(root).Resume(ctx)
}

// Review returns what an agent has changed in a mount, and what Accept leaves of a selection.
func (m *Mounts) Review(ctx context.Context, ref, name string, sel review.Selection, hunks bool) (all *review.Changes, err error) {
	err = m.on(ctx, ref, name, func(_ *entry, r *review.Review) error {
		all, err = r.Compute(ctx, sel, hunks)
		return err
	})
	return all, err
}

// Decide writes changes to the folder, or rejects them: then it undoes them in the agent's copy.
func (m *Mounts) Decide(ctx context.Context, ref, name string, sel review.Selection, reject bool, by machine.Cause) (report *review.Report, err error) {
	return report, m.on(ctx, ref, name, func(e *entry, r *review.Review) error {
		what, decide := AcceptedEvent, r.Accept
		if reject {
			what, decide = RejectedEvent, r.Reject
		}
		if report, err = decide(ctx, sel); report == nil || len(report.Done) == 0 {
			return err
		}
		var paths []string
		for _, o := range report.Done[:min(len(report.Done), maxNamed)] {
			paths = append(paths, fmt.Sprintf("%q", o.Path))
		}
		m.note(what, by, e, map[string]string{"files": fmt.Sprint(len(report.Done)), "left": fmt.Sprint(len(report.Left)), "paths": strings.Join(paths, " ")})
		return err
	})
}

// Read writes the agent's version of a changed file, or the folder's.
func (m *Mounts) Read(ctx context.Context, ref, name, path string, agents bool, to io.Writer) error {
	return m.on(ctx, ref, name, func(_ *entry, r *review.Review) error {
		from, err := r.Version(ctx, path, agents)
		if err == nil {
			_, err = io.Copy(to, from)
		}
		return err
	})
}

// undecided fails if an ended mount has changes that a person has not decided about. The caller has the turn.
func (e *entry) undecided(ctx context.Context, changes upper) error {
	root, err := e.open()
	if err != nil {
		return err
	}
	r := e.newReview(root)
	r.Upper = changes
	all, err := r.Compute(ctx, review.Selection{}, false)
	if err == nil && len(all.Changes) > 0 {
		err = fault.Newf(fault.Rejected, opUnmount, string(e.Name), "there are changes to review: %d", len(all.Changes)).
			Advise("Accept or reject them with osaurus-sandbox review, or discard them with --force.")
	}
	return err
}

// end unmounts a folder. Without force, it fails if programs use it, or if there are changes to review: then the
// folder is mounted again. If no guest runs, there may be changes, which the next mount of the folder shows again.
func (e *entry) end(ctx context.Context, force bool) error {
	if !e.attached() || !e.reviewed() {
		return e.detach(ctx, force)
	}
	lease, agent, err := e.of.Agents.RunningRoom(string(e.Agent)).Enter(ctx)
	if err != nil && force { // the changes stay
		return e.detach(ctx, force)
	}
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := e.detach(ctx, force); err != nil {
		return err
	}
	g, _ := e.of.Guest(lease.Guest) // it had a mount
	if !force {
		if err := e.undecided(ctx, upper{g, agent.User, e.guestName()}); err != nil {
			e.setEnding(false)
			return errors.Join(err, e.attach(ctx, lease, agent))
		}
	}
	return errors.Join(g.ForgetMount(ctx, agent.User, e.guestName()), e.newReview(nil).Forget())
}
