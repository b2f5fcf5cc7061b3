package control

import (
	"context"
	"strings"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/snapshots"
)

// backupService implements the service Backups.
type backupService struct{ service }

func snapshotProto(m snapshots.Snapshot) *controlpb.Snapshot {
	return &controlpb.Snapshot{
		Name: m.Name, Created: moment(m.Created), Base: m.Base, Bytes: m.Bytes,
		Agents: protos(m.Agents, func(a agents.Agent) string { return string(a.Name) }),
	}
}

type snapshotStream = *connect.ServerStream[controlpb.SnapshotProgress]

// follow audits do and sends its progress. A client that does not get it has left, which ends ctx.
func (s backupService) follow(ctx context.Context, n note, stream snapshotStream, do func(progress.Func) (snapshots.Snapshot, error)) error {
	made, err := answered(ctx, s.service, n, func() (snapshots.Snapshot, error) {
		return do(reporting(stream, func(e *controlpb.ProgressEvent) *controlpb.SnapshotProgress {
			return &controlpb.SnapshotProgress{Progress: e}
		}))
	})
	if err != nil {
		return err
	}
	return stream.Send(&controlpb.SnapshotProgress{Snapshot: snapshotProto(made)})
}

// Create makes a snapshot.
func (s backupService) Create(ctx context.Context, r *controlpb.CreateSnapshotRequest, stream snapshotStream) error {
	return s.follow(ctx, note{action: "snapshot.create", subject: r.Name, strict: true}, stream, func(report progress.Func) (snapshots.Snapshot, error) {
		return s.Snapshots.Create(ctx, r.Name, r.Stop, report, callerOf(ctx).cause())
	})
}

// List lists the snapshots.
func (s backupService) List(context.Context, *controlpb.ListSnapshotsRequest) (*controlpb.ListSnapshotsResponse, error) {
	list, err := s.Snapshots.List()
	return &controlpb.ListSnapshotsResponse{Snapshots: protos(list, snapshotProto)}, err
}

// Restore stages a snapshot and ends the daemon.
func (s backupService) Restore(ctx context.Context, r *controlpb.RestoreSnapshotRequest, stream snapshotStream) error {
	n, staged := note{action: "snapshot.restore", subject: r.Name, strict: true}, false
	if r.OtherPack {
		n.detail = "also for another base"
	}
	err := s.follow(ctx, n, stream, func(report progress.Func) (m snapshots.Snapshot, err error) {
		m, err = s.Snapshots.Stage(ctx, r.Name, r.OtherPack, report)
		staged = err == nil
		return m, err
	})
	if staged { // also if the client has left
		_, err = s.Quit(context.WithoutCancel(ctx), &controlpb.QuitRequest{})
	}
	return err
}

// Delete deletes a snapshot.
func (s backupService) Delete(ctx context.Context, r *controlpb.DeleteSnapshotRequest) (*controlpb.DeleteSnapshotResponse, error) {
	return &controlpb.DeleteSnapshotResponse{}, s.audited(ctx, note{action: "snapshot.delete", subject: r.Name, strict: true}, func() error {
		return s.Snapshots.Delete(r.Name, callerOf(ctx).cause())
	})
}

// Export sends an agent.
func (s backupService) Export(ctx context.Context, r *controlpb.ExportAgentRequest, stream *connect.ServerStream[controlpb.Chunk]) error {
	return s.onRecord(ctx, r.Agent, "agent.export", "", func(agent agents.Agent) error {
		return s.Agents.Export(ctx, string(agent.ID), sendingChunks(stream))
	})
}

// Import makes a new agent.
func (s backupService) Import(ctx context.Context, stream *connect.ClientStream[controlpb.ImportAgentRequest]) (*controlpb.ImportAgentResponse, error) {
	stream.Receive() // without a message, the archive is empty
	how, data := stream.Msg(), received(stream, func() []byte { return stream.Msg().GetData() })
	data.rest = how.Data
	n := note{action: "agent.import", subject: how.Name, strict: true}
	if how.Settings {
		n.detail = "with its settings"
	}
	if how.OtherPack {
		n.detail = strings.TrimPrefix(n.detail+", also from another base", ", ")
	}
	made, err := answered(ctx, s.service, n, func() (agents.Agent, error) {
		return s.Agents.Import(ctx, agents.Import{Name: how.Name, Settings: how.Settings, OtherBase: how.OtherPack}, data, callerOf(ctx).cause())
	})
	return &controlpb.ImportAgentResponse{Id: string(made.ID), Name: string(made.Name)}, err
}
