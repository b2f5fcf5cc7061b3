package control

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
)

// fileService implements the service Files.
type fileService struct{ service }

// CopyOut sends a file or a folder of a room.
func (s fileService) CopyOut(ctx context.Context, r *controlpb.CopyOutRequest, stream *connect.ServerStream[controlpb.Chunk]) error {
	return s.onRecord(ctx, r.Agent, "copy.out", r.Path, func(agent agents.Agent) error {
		return s.Agents.CopyOut(ctx, string(agent.ID), r.Path, sendingChunks(stream))
	})
}

// CopyIn writes a file or a folder into a room.
func (s fileService) CopyIn(ctx context.Context, stream *connect.ClientStream[controlpb.CopyInRequest]) (*controlpb.CopyInResponse, error) {
	if !stream.Receive() || stream.Msg().GetTo() == nil {
		return nil, fault.New(fault.InvalidArgs, "copy", "", errors.Join(errors.New("the first message does not say to where"), stream.Err())).Advise("Send `to` in the first message.")
	}
	to := stream.Msg().GetTo()
	err := s.onRecord(ctx, to.Agent, "copy.in", to.Path, func(agent agents.Agent) error {
		archive := received(stream, func() []byte { return stream.Msg().GetData() }) // tar knows whether it is complete
		_, err := s.undoable(ctx, agent, "cp", to.Path, func() error { return s.Agents.CopyIn(ctx, string(agent.ID), to.Path, to.Name, archive) })
		return err
	})
	return &controlpb.CopyInResponse{}, err
}
