package control

import (
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// Watch tells of changes of an agent's tools.
func (s toolService) Watch(ctx context.Context, r *controlpb.WatchToolsRequest, stream *connect.ServerStream[controlpb.WatchToolsResponse]) error {
	for {
		tools, agents := s.Tools.Changed(), s.Agents.Changed() // before the look, so that nothing is missed
		if _, err := s.Agents.Get(r.Agent); err != nil {
			return err
		}
		if err := stream.Send(&controlpb.WatchToolsResponse{}); err != nil {
			return err
		}
		select {
		case <-tools:
		case <-agents:
		case <-s.closing:
			return fault.Newf(fault.Unavailable, "watch tools", r.Agent, "the daemon ends")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
