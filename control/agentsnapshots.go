package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// snapshotService implements the service Snapshots.
type snapshotService struct{ service }

// Change creates, restores or deletes a snapshot.
func (s snapshotService) Change(ctx context.Context, r *controlpb.ChangeAgentSnapshotRequest) (*controlpb.ChangeAgentSnapshotResponse, error) {
	const op = "change snapshots"
	name, err := config.ParseSnapshotName(r.Name)
	action := engine.SnapshotAction(r.Action)
	switch {
	case err != nil:
		return nil, err
	case action == engine.CreateSnapshot && strings.HasPrefix(r.Name, engine.AutomaticSnapshot):
		return nil, fault.Newf(fault.Rejected, op, r.Name, "names of automatic snapshots begin with %s", engine.AutomaticSnapshot).Advise("Choose another name.")
	case !slices.Contains([]engine.SnapshotAction{engine.CreateSnapshot, engine.RestoreSnapshot, engine.DeleteSnapshot}, action):
		return nil, fault.Newf(fault.InvalidArgs, op, r.Action, "no such action").Advise("Use create, restore or delete.")
	}
	return answeredFor(ctx, s.service, r.Agent, "agent.snapshot", r.Action+" "+r.Name, func(a agents.Agent) (*controlpb.ChangeAgentSnapshotResponse, error) {
		made, err := s.Agents.ChangeSnapshot(ctx, string(a.ID), action, name, r.Stop, callerOf(ctx).cause())
		return &controlpb.ChangeAgentSnapshotResponse{Snapshot: made}, err
	})
}

// List lists the snapshots of an agent's room. It starts no guest.
func (s snapshotService) List(ctx context.Context, r *controlpb.ListAgentSnapshotsRequest) (*controlpb.ListAgentSnapshotsResponse, error) {
	answer := &controlpb.ListAgentSnapshotsResponse{}
	return answer, s.Agents.RunningRoom(r.Agent).Snapshots(ctx, func(_ *machine.Lease, in engine.Snapshots, agent agents.Agent) error {
		list, err := in.ListSnapshots(ctx, agent.User)
		answer.Snapshots = protos(list, func(s engine.Snapshot) *controlpb.AgentSnapshot {
			return &controlpb.AgentSnapshot{Name: s.Name, Made: timestamppb.New(s.Made)}
		})
		return err
	})
}

// Diff lists what has changed since a snapshot.
func (s snapshotService) Diff(ctx context.Context, r *controlpb.DiffAgentSnapshotRequest) (*controlpb.DiffAgentSnapshotResponse, error) {
	name, err := config.ParseSnapshotName(r.Name)
	if err != nil {
		return nil, err
	}
	answer := &controlpb.DiffAgentSnapshotResponse{}
	return answer, s.Agents.Room(r.Agent).Snapshots(ctx, func(_ *machine.Lease, in engine.Snapshots, agent agents.Agent) error {
		list, err := in.DiffSnapshot(ctx, agent.User, name)
		answer.Changes = protos(list, func(c string) string { return strings.ToValidUTF8(c, "\uFFFD") })
		return err
	})
}

// Fork creates an agent with what another one has.
func (s agentService) Fork(ctx context.Context, r *controlpb.ForkAgentRequest, stream *connect.ServerStream[controlpb.ForkAgentResponse]) error {
	what := commandLine([]string{r.Name})
	if r.Secrets {
		what += " with its secrets"
	}
	made, err := answeredFor(ctx, s.service, r.Agent, "agent.fork", strings.TrimSpace(what+" "+assignments(r.Settings)), func(from agents.Agent) (agents.Agent, error) {
		var then history.Digest
		if r.Call != 0 { // looked up before stop ends anything
			var err error
			if then, err = s.Checkpoints.HomeAfter(ctx, from, r.Call); err != nil {
				return agents.Agent{}, err
			}
		}
		fill := func(from, to agents.Agent) error {
			err := s.Checkpoints.Fork(ctx, from, to, then, reporting(stream, func(e *controlpb.ProgressEvent) *controlpb.ForkAgentResponse {
				return &controlpb.ForkAgentResponse{Progress: e}
			}))
			if err != nil {
				s.Checkpoints.Forget(to.ID) // it will be deleted
			}
			return err
		}
		made, err := s.Agents.Fork(ctx, string(from.ID), agents.New{Name: r.Name, Settings: r.Settings}, r.Stop, fill, callerOf(ctx).cause())
		if err == nil && r.Secrets {
			if err = s.Vault.Copy(ctx, from.ID, made.ID); err != nil {
				err = fmt.Errorf("%s was created, but not all secrets were copied: %w", made.Name, err)
			}
		}
		return made, err
	})
	if err != nil {
		return err
	}
	return stream.Send(&controlpb.ForkAgentResponse{Agent: s.proto(made)})
}
