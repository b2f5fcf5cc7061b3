package control

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/control/controlpb"
)

// agentLogs answers what programs of an agent have logged.
func (s service) agentLogs(ctx context.Context, r *controlpb.LogsRequest, since time.Time, stream *connect.ServerStream[controlpb.LogsResponse]) error {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return err
	}
	for line, err := range s.Lines.Read(ctx, agent.ID, r.Follow) {
		if err != nil {
			return err
		}
		if line.Time.Before(since) {
			continue
		}
		if err := stream.Send(&controlpb.LogsResponse{
			Source: line.Source, Time: timestamppb.New(line.Time), Level: string(line.Level), Text: shown(line.Text),
		}); err != nil {
			return err
		}
	}
	return nil
}
