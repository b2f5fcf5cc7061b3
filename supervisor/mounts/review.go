package mounts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/fault"
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

// Reviewed is a change with the reason why Accept leaves it, if it does.
type Reviewed struct {
	review.Change
	Left string
}

// Decision is what a person accepts or rejects. Without picks it is everything that Review has no reason to
// leave.
type Decision struct {
	review.Selection
	Marked bool // also what may run on this computer
}

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
	return c, r.with(ctx, r.of.Agents.RunningRoom(string(r.Agent)), func(s *session) error {
		c.Tree, err = s.review.Record(ctx)
		return err
	})
}

// Restore implements checkpoints.Root. It starts the guest if necessary.
func (r root) Restore(ctx context.Context, to history.Digest, paths []string, _ progress.Func) (out history.Restored, err error) {
	return out, r.with(ctx, r.of.Agents.Room(string(r.Agent)), func(s *session) error {
		out, err = s.review.Restore(ctx, to, paths)
		return err
	})
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

// Review returns what an agent has changed in a mount, and what a decision leaves of it.
func (m *Mounts) Review(ctx context.Context, ref, name string, q review.Query, d Decision) (list []Reviewed, all *review.Changes, err error) {
	err = m.on(ctx, ref, name, func(s *session) error {
		list, all, err = s.compute(ctx, q, d)
		return err
	})
	return list, all, err
}

// compute returns the changes, and why a decision leaves some of them.
func (s *session) compute(ctx context.Context, q review.Query, d Decision) (list []Reviewed, all *review.Changes, err error) {
	if all, err = s.review.Compute(ctx, q); err != nil {
		return nil, nil, err
	}
	for _, c := range all.Changes {
		list = append(list, Reviewed{c, d.leaves(c, q.Paths)})
	}
	return list, all, nil
}

// leaves returns why a change is not accepted if these paths are.
func (d Decision) leaves(c review.Change, paths []string) string {
	switch named := slices.Contains(paths, c.Path); {
	case c.Git && !slices.ContainsFunc(paths, func(p string) bool { return inGit(p) && (p == c.Path || within(c.Path, p)) }):
		return "it is in a .git, whose hooks and settings run here: name it"
	case c.Runs != "" && !named && !d.Marked:
		return c.Runs + ": name it, or use --yes-marked"
	case c.Conflict != "" && !d.AcceptConflicts:
		return c.Conflict
	}
	return ""
}

func inGit(path string) bool { return slices.Contains(strings.Split(path, "/"), ".git") }

// Decide is Accept or Reject.
type Decide func(ctx context.Context, ref, name string, d Decision, by machine.Cause) (*review.Report, error)

// Accept writes changes to the folder.
func (m *Mounts) Accept(ctx context.Context, ref, name string, d Decision, by machine.Cause) (report *review.Report, err error) {
	err = m.on(ctx, ref, name, func(s *session) error {
		report, err = s.accept(ctx, d, by)
		return err
	})
	return report, err
}

func (s *session) accept(ctx context.Context, d Decision, by machine.Cause) (*review.Report, error) {
	var paths []string
	picked := map[string]review.Pick{}
	for _, p := range d.Picks {
		paths = append(paths, p.Path)
		picked[p.Path] = p
	}
	list, _, err := s.compute(ctx, review.Query{Paths: paths}, d)
	if err != nil {
		return nil, err
	}
	take := d.Selection
	take.Picks = nil
	var left []review.Outcome
	for _, c := range list {
		if c.Left != "" {
			left = append(left, review.Outcome{Path: c.Path, Reason: c.Left})
			continue
		}
		pick := picked[c.Path]
		pick.Path, pick.ID = c.Path, cmp.Or(pick.ID, c.ID)
		take.Picks = append(take.Picks, pick)
	}
	if len(take.Picks) == 0 { // which would be everything
		return &review.Report{Left: left}, nil
	}
	report, err := s.review.Accept(ctx, take)
	if report != nil {
		s.decided(AcceptedEvent, by, report)
		report.Left = append(report.Left, left...)
	}
	return report, err
}

// Reject undoes changes in the agent's copy.
func (m *Mounts) Reject(ctx context.Context, ref, name string, d Decision, by machine.Cause) (report *review.Report, err error) {
	err = m.on(ctx, ref, name, func(s *session) error {
		if report, err = s.review.Reject(ctx, d.Selection); report != nil {
			s.decided(RejectedEvent, by, report)
		}
		return err
	})
	return report, err
}

// decided records what was accepted or rejected.
func (s *session) decided(what events.Kind, by machine.Cause, report *review.Report) {
	var paths []string
	for _, o := range report.Done[:min(len(report.Done), maxNamed)] {
		paths = append(paths, fmt.Sprintf("%q", o.Path))
	}
	s.of.note(what, by, s.entry, map[string]string{"files": fmt.Sprint(len(report.Done)), "left": fmt.Sprint(len(report.Left)), "paths": strings.Join(paths, " ")})
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
			from, err = s.review.Real.Open(path)
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

// unreviewed fails if there are changes that a person has not decided about. The caller has the turn.
func (m *Mounts) unreviewed(ctx context.Context, e *entry) error {
	s, err := e.begin(ctx, m.Agents.RunningRoom(string(e.Agent)))
	if err != nil {
		return err
	}
	defer s.lease.Release()
	all, err := s.review.Compute(ctx, review.Query{})
	if err == nil && len(all.Changes) > 0 {
		err = fault.Newf(fault.Rejected, opUnmount, string(e.Name), "there are changes to review: %d", len(all.Changes)).
			Advise("Accept or reject them with osaurus-sandbox review, or discard them with --force.")
	}
	return err
}

// forget discards the changes of a mount that has ended.
func (m *Mounts) forget(ctx context.Context, e *entry) error {
	if !e.reviewed() {
		return nil
	}
	lease, agent, err := m.Agents.RunningRoom(string(e.Agent)).Enter(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	if g, ok := m.Guest(lease.Guest); ok {
		err = g.ForgetMount(ctx, agent.User, e.guestName())
	}
	return cmp.Or(err, e.newReview(nil).Forget())
}
