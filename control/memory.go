package control

import (
	"cmp"
	"context"
	"fmt"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/services"
)

// memoryService implements the service Memory.
type memoryService struct{ service }

func factProto(f services.Fact) *controlpb.Fact {
	return &controlpb.Fact{
		Id: int64(f.ID), Content: f.Content, Salience: f.Salience, Source: f.Source, Pinned: f.Pinned, Created: moment(f.Created),
	}
}

// List lists all facts of an agent.
func (s memoryService) List(ctx context.Context, r *controlpb.ListFactsRequest, stream *connect.ServerStream[controlpb.ListFactsResponse]) error {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return err
	}
	return sendAll(stream, s.Memory.List(ctx, agent.ID), func(f services.Fact) *controlpb.ListFactsResponse {
		return &controlpb.ListFactsResponse{Fact: factProto(f)}
	})
}

// Search returns the facts that a program of the agent would get.
func (s memoryService) Search(ctx context.Context, r *controlpb.SearchFactsRequest) (*controlpb.SearchFactsResponse, error) {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(r.Limit, services.DefaultFound)
	found, err := s.Memory.Search(ctx, agent.ID, r.Query, int(min(limit, services.MaxFound+1)))
	return &controlpb.SearchFactsResponse{Facts: protos(found, factProto)}, err
}

// Add stores a fact.
func (s memoryService) Add(ctx context.Context, r *controlpb.AddFactRequest) (*controlpb.AddFactResponse, error) {
	// The content is private to the agent, so the audit has its size only.
	f, err := answeredFor(ctx, s.service, r.Agent, "memory.add", fmt.Sprintf("%d bytes", len(r.Content)), func(agent agents.Agent) (services.Fact, error) {
		return s.Memory.Add(ctx, agent.ID, r.Content, r.Pinned)
	})
	return &controlpb.AddFactResponse{Fact: factProto(f)}, err
}

// Pin pins or unpins a fact.
func (s memoryService) Pin(ctx context.Context, r *controlpb.PinFactRequest) (*controlpb.PinFactResponse, error) {
	f, err := answeredFor(ctx, s.service, r.Agent, "memory.pin", fmt.Sprintf("%d %v", r.Id, r.Pinned), func(agent agents.Agent) (services.Fact, error) {
		return s.Memory.Pin(ctx, agent.ID, services.FactID(r.Id), r.Pinned)
	})
	return &controlpb.PinFactResponse{Fact: factProto(f)}, err
}

// Delete deletes one fact, or all.
func (s memoryService) Delete(ctx context.Context, r *controlpb.DeleteFactsRequest) (*controlpb.DeleteFactsResponse, error) {
	what := fmt.Sprint(r.Id)
	if r.All {
		what = "all"
	}
	deleted, err := answeredFor(ctx, s.service, r.Agent, "memory.delete", what, func(agent agents.Agent) (int, error) {
		if r.All {
			return s.Memory.DeleteAll(ctx, agent.ID)
		}
		return 1, s.Memory.Delete(ctx, agent.ID, services.FactID(r.Id))
	})
	return &controlpb.DeleteFactsResponse{Deleted: uint32(deleted)}, err
}
