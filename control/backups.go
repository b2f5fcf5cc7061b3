package control

import (
	"cmp"
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/snapshots"
)

// backupService implements the service Backups.
type backupService struct{ service }

func snapshotProto(m snapshots.Manifest) *controlpb.Snapshot {
	p := &controlpb.Snapshot{
		Name: m.Name, Created: timestamppb.New(m.Created), Program: m.Program, Base: m.Base, Live: m.Live,
		DiskSize: m.DiskSize, DiskBytes: m.DiskBytes, WorkspaceBytes: m.Workspace.Bytes, WorkspaceFiles: m.Workspace.Files,
	}
	for _, a := range m.Agents {
		p.Agents = append(p.Agents, string(a.Name))
	}
	return p
}

// sending returns a function that sends progress. A client that does not get it has left, which ends
// the call's context.
func sending(send func(*controlpb.BackupProgress) error) progress.Func {
	return func(e progress.Event) {
		_ = send(&controlpb.BackupProgress{Step: e.Step, Done: e.Done, Total: e.Total, Finished: e.Finished, Note: e.Note})
	}
}

// Create makes a snapshot.
func (s backupService) Create(ctx context.Context, r *controlpb.CreateSnapshotRequest, stream *connect.ServerStream[controlpb.CreateSnapshotResponse]) error {
	made, err := answered(ctx, s.service, note{action: "snapshot.create", subject: r.Name, strict: true}, func() (snapshots.Manifest, error) {
		return s.Snapshots.Create(ctx, r.Name, r.Stop, sending(func(p *controlpb.BackupProgress) error {
			return stream.Send(&controlpb.CreateSnapshotResponse{Progress: p})
		}), callerOf(ctx).cause())
	})
	if err != nil {
		return err
	}
	return stream.Send(&controlpb.CreateSnapshotResponse{Snapshot: snapshotProto(made)})
}

// List lists the snapshots.
func (s backupService) List(context.Context, *controlpb.ListSnapshotsRequest) (*controlpb.ListSnapshotsResponse, error) {
	list, broken, err := s.Snapshots.List()
	return &controlpb.ListSnapshotsResponse{Snapshots: protos(list, snapshotProto), Broken: broken}, err
}

// Restore stages a snapshot and ends the daemon.
func (s backupService) Restore(ctx context.Context, r *controlpb.RestoreSnapshotRequest, stream *connect.ServerStream[controlpb.RestoreSnapshotResponse]) error {
	n := note{action: "snapshot.restore", subject: r.Name, strict: true}
	if r.OtherPack {
		n.detail = "also for another base"
	}
	staged, err := answered(ctx, s.service, n, func() (snapshots.Manifest, error) {
		return s.Snapshots.Stage(ctx, r.Name, r.OtherPack, sending(func(p *controlpb.BackupProgress) error {
			return stream.Send(&controlpb.RestoreSnapshotResponse{Progress: p})
		}))
	})
	if err != nil {
		return err
	}
	_ = stream.Send(&controlpb.RestoreSnapshotResponse{Snapshot: snapshotProto(staged)}) // it is restored whoever hears of it
	_, err = s.Quit(context.WithoutCancel(ctx), &controlpb.QuitRequest{})
	return err
}

// Export sends an agent.
func (s backupService) Export(ctx context.Context, r *controlpb.ExportAgentRequest, stream *connect.ServerStream[controlpb.ExportAgentResponse]) error {
	return s.onRecord(ctx, r.Agent, "agent.export", "", func(agent agents.Agent) error {
		return s.Agents.Export(ctx, string(agent.ID), inChunks(func(b []byte) error {
			return stream.Send(&controlpb.ExportAgentResponse{Data: b})
		}))
	})
}

// Import makes a new agent.
func (s backupService) Import(ctx context.Context, stream *connect.ClientStream[controlpb.ImportAgentRequest]) (*controlpb.ImportAgentResponse, error) {
	if !stream.Receive() || stream.Msg().GetHow() == nil {
		return nil, fault.New(fault.InvalidArgs, "import agent", "", errors.Join(errors.New("the first message does not say how"), stream.Err())).Advise("Send `how` in the first message.")
	}
	how := stream.Msg().GetHow()
	n := note{action: "agent.import", subject: how.Name, strict: true}
	if how.Network {
		n.detail = "with its network"
	}
	made, err := answered(ctx, s.service, n, func() (agents.Agent, error) {
		data := &pieces{next: func() ([]byte, error) {
			if stream.Receive() {
				return stream.Msg().GetData(), nil
			}
			return nil, cmp.Or(stream.Err(), io.EOF)
		}}
		return s.Agents.Import(ctx, agents.Import{Name: how.Name, Network: how.Network}, data, callerOf(ctx).cause())
	})
	return &controlpb.ImportAgentResponse{Id: string(made.ID), Name: string(made.Name)}, err
}

// ExportAgent reads an agent as an archive.
func (c *Client) ExportAgent(ctx context.Context, agent string) (io.ReadCloser, error) {
	stream, err := c.Backups.Export(ctx, &controlpb.ExportAgentRequest{Agent: agent})
	if err != nil {
		return nil, err
	}
	return readCloser{&pieces{next: func() ([]byte, error) {
		if stream.Receive() {
			return stream.Msg().Data, nil
		}
		return nil, cmp.Or(stream.Err(), io.EOF)
	}}, stream}, nil
}

// ImportAgent makes a new agent of an archive and returns its name.
func (c *Client) ImportAgent(ctx context.Context, how *controlpb.ImportAgentHow, archive io.Reader) (name string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Backups.Import(ctx)
	if err != nil {
		return "", err
	}
	if err = stream.Send(&controlpb.ImportAgentRequest{What: &controlpb.ImportAgentRequest_How{How: how}}); err == nil {
		_, err = io.Copy(inChunks(func(b []byte) error {
			return stream.Send(&controlpb.ImportAgentRequest{What: &controlpb.ImportAgentRequest_Data{Data: b}})
		}), archive)
	}
	if err != nil && !errors.Is(err, io.EOF) { // with EOF, the answer has the reason
		return "", err
	}
	r, err := stream.CloseAndReceive()
	return r.GetName(), err
}

// Delete deletes a snapshot.
func (s backupService) Delete(ctx context.Context, r *controlpb.DeleteSnapshotRequest) (*controlpb.DeleteSnapshotResponse, error) {
	return &controlpb.DeleteSnapshotResponse{}, s.audited(ctx, note{action: "snapshot.delete", subject: r.Name, strict: true}, func() error {
		return s.Snapshots.Delete(r.Name, callerOf(ctx).cause())
	})
}
