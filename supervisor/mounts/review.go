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
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/machine"
)

const (
	opReview = "review"
	// maxNamed bounds the paths in an event.
	maxNamed = 50
)

// session is the work on the changes of one mount. The caller has the turn.
type session struct {
	*entry
	review *review.Review
	lease  *machine.Lease
}

// begin begins to work on a mount's changes, in this room of its agent. The caller must release the lease.
func (e *entry) begin(ctx context.Context, room agents.Room) (*session, error) {
	if !e.reviewed() {
		return nil, fault.Newf(fault.Rejected, opReview, string(e.Name), "it is mounted for %s: there is nothing to review", e.Mode)
	}
	lease, agent, err := room.Enter(ctx)
	if err != nil {
		return nil, err
	}
	root, err := e.open()
	if err == nil {
		err = e.attach(ctx, lease, agent)
	}
	if err != nil {
		lease.Release()
		return nil, err
	}
	r := e.newReview(root)
	if g, ok := e.of.Guest(lease.Guest); ok { // it has mounts: this is one
		r.Upper, r.View = upper{g, agent.User, e.guestName()}, view(lease.Room(agent.User), e.At)
	}
	return &session{e, r, lease}, nil
}

// on finds a mount and does something with its changes. It starts the guest if necessary.
func (m *Mounts) on(ctx context.Context, ref, name string, do func(*session) error) error {
	e, err := m.find(ref, name)
	if err != nil {
		return err
	}
	return e.with(ctx, m.Agents.Room(string(e.Agent)), do)
}

// with waits for the turn and does something with the mount's changes, in this room of its agent.
func (e *entry) with(ctx context.Context, room agents.Room, do func(*session) error) error {
	end, err := e.of.turn(ctx, opReview, e)
	if err != nil {
		return err
	}
	defer end()
	s, err := e.begin(ctx, room)
	if err != nil {
		return err
	}
	defer s.lease.Release()
	return do(s)
}

// Roots returns an agent's reviewed mounts for its checkpoints.
func (m *Mounts) Roots(agent config.AgentID) (list []checkpoints.Root) {
	for _, e := range m.entries() {
		if e.Agent == agent && e.reviewed() {
			list = append(list, root{e})
		}
	}
	return list
}

// root is a reviewed mount as a Root. Its trees are those of what its agent changed.
type root struct{ *entry }

func (r root) Name() string   { return checkpoints.MountRoot(r.At, r.historyKey()) }
func (r root) Folder() string { return r.At }
func (r root) Close() error   { return nil }

// Checkpoint implements checkpoints.Root. Without a guest, nothing has changed since the last one.
func (r root) Checkpoint(ctx context.Context) (c history.Checkpoint, err error) {
	if !r.attached() {
		c.Tree, _ = r.of.History.Head(r.historyKey() + "/upper")
		return c, nil
	}
	err = r.with(ctx, r.of.Agents.RunningRoom(string(r.Agent)), func(s *session) error {
		c.Tree, err = s.review.Record(ctx)
		return err
	})
	return c, err
}

// Restore implements checkpoints.Root. It starts the guest if necessary.
func (r root) Restore(ctx context.Context, to history.Digest, paths []string, _ progress.Func) (out history.Restored, err error) {
	err = r.with(ctx, r.of.Agents.Room(string(r.Agent)), func(s *session) error {
		out, err = s.review.Restore(ctx, to, paths)
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
	err = m.on(ctx, ref, name, func(s *session) error {
		all, err = s.review.Compute(ctx, sel, hunks)
		return err
	})
	return all, err
}

// Decide writes changes to the folder, or rejects them: then it undoes them in the agent's copy.
func (m *Mounts) Decide(ctx context.Context, ref, name string, sel review.Selection, reject bool, by machine.Cause) (report *review.Report, err error) {
	return report, m.on(ctx, ref, name, func(s *session) error {
		what, decide := AcceptedEvent, s.review.Accept
		if reject {
			what, decide = RejectedEvent, s.review.Reject
		}
		if report, err = decide(ctx, sel); report == nil || len(report.Done) == 0 {
			return err
		}
		var paths []string
		for _, o := range report.Done[:min(len(report.Done), maxNamed)] {
			paths = append(paths, fmt.Sprintf("%q", o.Path))
		}
		m.note(what, by, s.entry, map[string]string{"files": fmt.Sprint(len(report.Done)), "left": fmt.Sprint(len(report.Left)), "paths": strings.Join(paths, " ")})
		return err
	})
}

// Read writes the agent's version of a changed file, or the folder's.
func (m *Mounts) Read(ctx context.Context, ref, name, path string, agents bool, to io.Writer) error {
	return m.on(ctx, ref, name, func(s *session) error {
		from, err := s.review.Version(ctx, path, agents)
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
			return errors.Join(err, e.attach(ctx, lease, agent))
		}
	}
	return errors.Join(g.ForgetMount(ctx, agent.User, e.guestName()), e.newReview(nil).Forget())
}
