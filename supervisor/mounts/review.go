package mounts

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/checkpoints"
	"osaurus-sandbox/supervisor/events"
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
		r.Upper, r.View = upper{g, agent.User, e.guestName()}, view{lease.Room(agent.User), e.At}
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

// Decide is Accept or Reject.
type Decide func(ctx context.Context, ref, name string, sel review.Selection, by machine.Cause) (*review.Report, error)

// Accept writes changes to the folder.
func (m *Mounts) Accept(ctx context.Context, ref, name string, sel review.Selection, by machine.Cause) (report *review.Report, err error) {
	err = m.on(ctx, ref, name, func(s *session) error {
		report, err = s.review.Accept(ctx, sel)
		return s.decided(AcceptedEvent, by, report, err)
	})
	return report, err
}

// Reject undoes changes in the agent's copy.
func (m *Mounts) Reject(ctx context.Context, ref, name string, sel review.Selection, by machine.Cause) (report *review.Report, err error) {
	err = m.on(ctx, ref, name, func(s *session) error {
		report, err = s.review.Reject(ctx, sel)
		return s.decided(RejectedEvent, by, report, err)
	})
	return report, err
}

// decided records what was accepted or rejected, and returns the error.
func (s *session) decided(what events.Kind, by machine.Cause, report *review.Report, err error) error {
	if report == nil || len(report.Done) == 0 {
		return err
	}
	var paths []string
	for _, o := range report.Done[:min(len(report.Done), maxNamed)] {
		paths = append(paths, fmt.Sprintf("%q", o.Path))
	}
	s.of.note(what, by, s.entry, map[string]string{"files": fmt.Sprint(len(report.Done)), "left": fmt.Sprint(len(report.Left)), "paths": strings.Join(paths, " ")})
	return err
}

// Version is one of the two versions of a changed file.
type Version string

const (
	OfAgent  Version = "agent"
	OfFolder Version = "folder"
)

// Read writes a version of a changed file.
func (m *Mounts) Read(ctx context.Context, ref, name, path string, which Version, to io.Writer) error {
	return m.on(ctx, ref, name, func(s *session) error {
		var from io.ReadCloser
		var err error
		switch which {
		case OfAgent:
			from, err = s.review.Upper.Open(ctx, path)
		case OfFolder:
			from, err = openFile(s.review.Real, path)
		default:
			err = fault.Newf(fault.InvalidArgs, "read version", string(which), "there is no such version").Advise("Use agent or folder.")
		}
		if err != nil {
			return fault.Wrap("read version", path, err)
		}
		defer from.Close()
		_, err = io.Copy(to, from)
		return err
	})
}

// openFile opens a regular file, and nothing else: a pipe would wait for somebody who writes.
func openFile(root *os.Root, path string) (io.ReadCloser, error) {
	seen, err := root.Lstat(path)
	if err == nil && !seen.Mode().IsRegular() {
		err = fault.Newf(fault.Rejected, opReview, path, "it is not a file")
	}
	if err != nil {
		return nil, err
	}
	return nofollow.File(root, path, seen)
}

// unreviewed fails if there are changes that a person has not decided about. The caller has the turn.
func (m *Mounts) unreviewed(ctx context.Context, e *entry) error {
	s, err := e.begin(ctx, m.Agents.RunningRoom(string(e.Agent)))
	if err != nil {
		return err
	}
	defer s.lease.Release()
	return e.undecided(ctx, s.review, "Accept or reject them with osaurus-sandbox review, or discard them with --force.")
}

// undecided fails if a review has changes.
func (e *entry) undecided(ctx context.Context, r *review.Review, advice string) error {
	all, err := r.Compute(ctx, review.Selection{}, false)
	if err == nil && len(all.Changes) > 0 {
		err = fault.Newf(fault.Rejected, opUnmount, string(e.Name), "there are changes to review: %d", len(all.Changes)).Advise(advice)
	}
	return err
}

// forget discards the changes of a mount that has ended. Without force, it fails if some were made until then.
func (m *Mounts) forget(ctx context.Context, e *entry, force bool) error {
	if !e.reviewed() {
		return nil
	}
	lease, agent, err := m.Agents.RunningRoom(string(e.Agent)).Enter(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	g, ok := m.Guest(lease.Guest)
	if ok && !force {
		err = m.unseen(ctx, e, upper{g, agent.User, e.guestName()})
	}
	if ok && err == nil {
		err = g.ForgetMount(ctx, agent.User, e.guestName())
	}
	if err != nil {
		return err
	}
	return e.newReview(nil).Forget()
}

// unseen fails if a mount that has ended has changes.
func (m *Mounts) unseen(ctx context.Context, e *entry, changes upper) error {
	root, _, err := m.Rules.Open(e.Folder, e.All)
	if err != nil {
		return err
	}
	defer root.Close()
	r := e.newReview(root)
	r.Upper = changes
	return e.undecided(ctx, r, "They were made while it was unmounted. Mount the folder again under the same name to review them.")
}
