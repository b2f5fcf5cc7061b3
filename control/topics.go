package control

import (
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/control/controlpb"
)

// topicService implements the service Topics.
type topicService struct{ service }

// Read sends events of programs, and with follow the ones to come.
func (s topicService) Read(ctx context.Context, r *controlpb.ReadTopicsRequest, stream *connect.ServerStream[controlpb.ReadTopicsResponse]) error {
	agent, err := s.agentID(r.Agent)
	if err != nil {
		return err
	}
	topics, err := parseAll(r.Topics, bridge.ParseTopics)
	if err != nil {
		return err
	}
	filter := bridge.EventFilter{After: bridge.EventSeq(r.After), Agent: agent, Topics: topics}
	if r.Follow {
		// Send the header, so that the client knows that it is subscribed.
		if err := stream.Send(nil); err != nil {
			return err
		}
	}
	return sendAll(stream, s.Topics.Read(ctx, filter, r.Follow), func(e bridge.Event) *controlpb.ReadTopicsResponse {
		agent, _ := s.Agents.Get(string(e.Agent)) // it may have been deleted meanwhile
		p := &controlpb.ReadTopicsResponse{
			Seq: int64(e.Seq), Time: moment(e.Time), Topic: string(e.Topic), Agent: string(agent.Name), Source: e.Source, Payload: string(e.Payload),
		}
		if e.Gap != nil {
			p.GapFrom, p.GapTo = int64(e.Gap.From), int64(e.Gap.To)
		}
		return p
	})
}
