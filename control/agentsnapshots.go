package control

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
)

// snapshotService implements the service Snapshots.
type snapshotService struct{ service }

func agentSnapshotProto(s engine.Snapshot) *controlpb.AgentSnapshot {
	return &controlpb.AgentSnapshot{Name: s.Name, Made: timestamppb.New(s.Made), Automatic: s.Automatic, Bytes: s.Bytes, Current: s.Current}
}

// onSnapshot runs do for a snapshot of an agent's room and audits it.
func onSnapshot[A any](ctx context.Context, s snapshotService, agent, name, action string, do func(agent string, name config.SnapshotName) (A, error)) (answer A, err error) {
	parsed, err := config.ParseSnapshotName(name)
	if err != nil {
		return answer, err
	}
	return answeredFor(ctx, s.service, agent, action, name, func(a agents.Agent) (A, error) { return do(string(a.ID), parsed) })
}

// Create freezes what an agent has changed.
func (s snapshotService) Create(ctx context.Context, r *controlpb.CreateAgentSnapshotRequest) (*controlpb.CreateAgentSnapshotResponse, error) {
	made, err := onSnapshot(ctx, s, r.Agent, r.Name, "agent.snapshot_create", func(agent string, name config.SnapshotName) (engine.Snapshot, error) {
		return s.Agents.Snapshot(ctx, agent, name, r.Stop, callerOf(ctx).cause())
	})
	return &controlpb.CreateAgentSnapshotResponse{Snapshot: agentSnapshotProto(made)}, err
}

// List lists the snapshots of an agent's room.
func (s snapshotService) List(ctx context.Context, r *controlpb.ListAgentSnapshotsRequest) (*controlpb.ListAgentSnapshotsResponse, error) {
	list, err := s.Agents.Snapshots(ctx, r.Agent)
	return &controlpb.ListAgentSnapshotsResponse{Snapshots: protos(list, agentSnapshotProto)}, err
}

// Diff lists what has changed since a snapshot.
func (s snapshotService) Diff(ctx context.Context, r *controlpb.DiffAgentSnapshotRequest) (*controlpb.DiffAgentSnapshotResponse, error) {
	name, err := config.ParseSnapshotName(r.Name)
	if err != nil {
		return nil, err
	}
	list, more, err := s.Agents.SnapshotDiff(ctx, r.Agent, name)
	return &controlpb.DiffAgentSnapshotResponse{Truncated: more, Changes: protos(list, func(c engine.PathChange) *controlpb.AgentSnapshotChange {
		return &controlpb.AgentSnapshotChange{Path: strings.ToValidUTF8(c.Path, "\uFFFD"), Kind: string(c.Kind)}
	})}, err
}

// Restore makes what an agent has changed what it was.
func (s snapshotService) Restore(ctx context.Context, r *controlpb.RestoreAgentSnapshotRequest) (*controlpb.RestoreAgentSnapshotResponse, error) {
	return onSnapshot(ctx, s, r.Agent, r.Name, "agent.snapshot_restore", func(agent string, name config.SnapshotName) (*controlpb.RestoreAgentSnapshotResponse, error) {
		before, err := s.Agents.RestoreSnapshot(ctx, agent, name, r.Stop, callerOf(ctx).cause())
		answer := &controlpb.RestoreAgentSnapshotResponse{}
		if before != nil {
			answer.Before = agentSnapshotProto(*before)
		}
		return answer, err
	})
}

// Delete deletes a snapshot.
func (s snapshotService) Delete(ctx context.Context, r *controlpb.DeleteAgentSnapshotRequest) (*controlpb.DeleteAgentSnapshotResponse, error) {
	return onSnapshot(ctx, s, r.Agent, r.Name, "agent.snapshot_delete", func(agent string, name config.SnapshotName) (*controlpb.DeleteAgentSnapshotResponse, error) {
		return &controlpb.DeleteAgentSnapshotResponse{}, s.Agents.DeleteSnapshot(ctx, agent, name, callerOf(ctx).cause())
	})
}

// Fork creates an agent with what another one has.
func (s agentService) Fork(ctx context.Context, r *controlpb.ForkAgentRequest, stream *connect.ServerStream[controlpb.ForkAgentResponse]) error {
	what := commandLine([]string{r.Name})
	if r.Secrets {
		what += " with its secrets"
	}
	made, err := answeredFor(ctx, s.service, r.Agent, "agent.fork", strings.TrimSpace(what+" "+assignments(r.Settings)), func(from agents.Agent) (agents.Agent, error) {
		made, err := s.Agents.Fork(ctx, string(from.ID), agents.New{Name: r.Name, Settings: r.Settings}, r.Stop, func(e progress.Event) {
			_ = stream.Send(&controlpb.ForkAgentResponse{Copied: uint64(e.Done)}) // the client gets the agent anyway, or has disconnected
		}, callerOf(ctx).cause())
		if err != nil || !r.Secrets {
			return made, err
		}
		if err := s.copySecrets(ctx, from, made); err != nil {
			return made, fmt.Errorf("%s is made, but without all secrets: %w", made.Name, err)
		}
		return made, nil
	})
	if err != nil {
		return err
	}
	return stream.Send(&controlpb.ForkAgentResponse{Agent: s.proto(made)})
}

// copySecrets gives an agent the secrets of another one. Those that are bound to hosts stay with their
// agent: a person has allowed that one to use them.
func (s agentService) copySecrets(ctx context.Context, from, to agents.Agent) error {
	keys, err := s.Vault.List(ctx, from.ID)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, bound := s.Vault.Binding(key); bound {
			continue
		}
		value, err := s.Vault.Get(ctx, bridge.Caller{Agent: from.ID, Name: from.Name, User: from.User, Plugin: key.Plugin}, key.Name)
		if err != nil {
			return err
		}
		key.Agent = to.ID
		if err := s.Vault.Set(ctx, key, value); err != nil {
			return err
		}
	}
	return nil
}
