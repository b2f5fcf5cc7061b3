package control

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/history/review"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/mounts"
)

// maxAuditedPaths bounds the paths that an audit entry names.
const maxAuditedPaths = 100

// mountService implements the service Mounts.
type mountService struct{ service }

func (s service) mountProto(m mounts.Mount) *controlpb.Mount {
	p := &controlpb.Mount{
		Agent: string(s.Mounts.NameOf(m)), Name: string(m.Name), Folder: text(m.Folder), At: text(m.At), Mode: string(m.Mode), Made: moment(m.Made), Until: moment(m.Until),
		Keep: m.Keep, Ask: m.Ask, State: string(m.State),
	}
	if m.Trouble != nil {
		p.Trouble = printable.Text(strings.TrimSpace(m.Trouble.Error() + " " + fault.AdviceOf(m.Trouble)))
	}
	return p
}

// Mount mounts a folder.
func (s mountService) Mount(ctx context.Context, r *controlpb.MountFolderRequest) (*controlpb.MountFolderResponse, error) {
	want := mounts.Mount{Folder: r.Folder, Name: config.MountName(r.Name), At: r.At, Mode: guest.MountMode(r.Mode), Keep: r.Keep, Ask: r.Ask, All: r.AllOfIt}
	if r.For != nil {
		want.Until = time.Now().Add(r.For.AsDuration())
	}
	made, err := answeredFor(ctx, s.service, r.Agent, "mount", strings.TrimSpace(r.Folder+" "+r.Mode), func(agent agents.Agent) (mounts.Mount, error) {
		return s.Mounts.Mount(ctx, string(agent.ID), want, callerOf(ctx).cause())
	})
	if err != nil {
		return nil, err
	}
	return &controlpb.MountFolderResponse{Mount: s.mountProto(made)}, nil
}

// Unmount ends a mount.
func (s mountService) Unmount(ctx context.Context, r *controlpb.UnmountFolderRequest) (*controlpb.UnmountFolderResponse, error) {
	return &controlpb.UnmountFolderResponse{}, s.onRecord(ctx, r.Agent, "unmount", r.Name, func(agent agents.Agent) error {
		return s.Mounts.Unmount(ctx, string(agent.ID), r.Name, r.Force, callerOf(ctx).cause())
	})
}

// List lists mounts.
func (s mountService) List(_ context.Context, r *controlpb.ListMountsRequest) (*controlpb.ListMountsResponse, error) {
	list, err := s.Mounts.List(r.Agent)
	return &controlpb.ListMountsResponse{Mounts: protos(list, s.mountProto)}, err
}

// Review sends what an agent changed.
func (s mountService) Review(ctx context.Context, r *controlpb.ReviewRequest, stream *connect.ServerStream[controlpb.ReviewResponse]) error {
	picks := protos(r.Paths, func(path string) review.Pick { return review.Pick{Path: pathOf(path)} })
	sel := review.Selection{Picks: picks, Marked: r.Marked, AcceptConflicts: r.Conflicts, OutsideLinks: r.OutsideLinks}
	all, err := s.Mounts.Review(ctx, r.Agent, r.Name, sel, r.Hunks)
	if err != nil {
		return err
	}
	for _, c := range all.Changes {
		if err := stream.Send(&controlpb.ReviewResponse{Change: changeProto(c)}); err != nil {
			return err
		}
	}
	return stream.Send(&controlpb.ReviewResponse{Rest: &controlpb.ReviewedRest{Ignored: int32(all.Ignored), IgnoredBytes: all.IgnoredBytes}})
}

// pathText returns a path as UTF-8: one that is not is quoted, and so is one that looks as if it were.
func pathText(path string) string {
	if utf8.ValidString(path) && !strings.HasPrefix(path, `"`) {
		return path
	}
	return strconv.Quote(path)
}

// pathOf is the inverse of pathText.
func pathOf(text string) string {
	if path, err := strconv.Unquote(text); err == nil && strings.HasPrefix(text, `"`) {
		return path
	}
	return text
}

// Decide accepts or rejects changes.
func (s mountService) Decide(ctx context.Context, r *controlpb.DecideRequest) (*controlpb.DecideResponse, error) {
	action := "review.accept"
	if r.Reject {
		action = "review.reject"
	}
	sel := review.Selection{Marked: r.Marked, AcceptConflicts: r.Conflicts, OutsideLinks: r.OutsideLinks}
	var paths []string
	for _, p := range r.Picks {
		pick := review.Pick{Path: pathOf(p.Path), ID: p.Id}
		for _, n := range p.Hunks {
			pick.Hunks = append(pick.Hunks, int(n))
		}
		sel.Picks, paths = append(sel.Picks, pick), append(paths, p.Path)
	}
	subject := r.Name + ": everything"
	if len(paths) > 0 {
		subject = r.Name + ": " + commandLine(paths[:min(len(paths), maxAuditedPaths)])
	}
	if more := len(paths) - maxAuditedPaths; more > 0 {
		subject += fmt.Sprintf(" and %d more", more)
	}
	report, err := answeredFor(ctx, s.service, r.Agent, action, subject, func(agent agents.Agent) (*review.Report, error) {
		return s.Mounts.Decide(ctx, string(agent.ID), r.Name, sel, r.Reject, callerOf(ctx).cause())
	})
	if err != nil {
		return nil, err
	}
	decided := func(o review.Outcome) *controlpb.Decided {
		return &controlpb.Decided{Path: pathText(o.Path), Merged: o.Merged, Reason: o.Reason}
	}
	return &controlpb.DecideResponse{Done: protos(report.Done, decided), Left: protos(report.Left, decided)}, nil
}

// Read sends a version of a changed file.
func (s mountService) Read(ctx context.Context, r *controlpb.ReadVersionRequest, stream *connect.ServerStream[controlpb.Chunk]) error {
	return s.Mounts.Read(ctx, r.Agent, r.Name, pathOf(r.Path), r.Agents, sendingChunks(stream))
}
