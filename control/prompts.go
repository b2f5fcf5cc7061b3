package control

import (
	"cmp"
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/prompts"
)

// promptService implements the service Prompts.
type promptService struct{ service }

func promptProto(p prompts.Prompt) *controlpb.Prompt {
	agent := cmp.Or(string(p.Name), string(p.Secret.Agent)) // the id of a deleted one
	if p.Secret.Agent == secrets.Host {
		agent = secrets.HostName
	}
	return &controlpb.Prompt{
		Id: string(p.ID), Agent: agent, Kind: string(p.Kind), Secret: string(p.Secret.Name), Plugin: string(p.Secret.Plugin), Text: p.Text,
		Asked: moment(p.Asked), Deadline: moment(p.Deadline), State: string(p.State), Ended: moment(p.Ended), Cause: p.Cause,
		What: p.What, Choice: string(p.Choice),
	}
}

// List lists the prompts that wait.
func (s promptService) List(_ context.Context, r *controlpb.ListPromptsRequest) (*controlpb.ListPromptsResponse, error) {
	list := s.Prompts.List()
	if r.Ended {
		list = append(s.Prompts.Ended(), list...)
	}
	return &controlpb.ListPromptsResponse{Prompts: protos(list, promptProto)}, nil
}

// Watch sends the prompts that wait, now and after each change.
func (s promptService) Watch(ctx context.Context, _ *controlpb.WatchPromptsRequest, stream *connect.ServerStream[controlpb.WatchPromptsResponse]) error {
	for list := range s.Prompts.Watch(ctx) {
		if err := stream.Send(&controlpb.WatchPromptsResponse{Prompts: protos(list, promptProto)}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Answer answers or cancels a prompt. The audit has the choice if there is one.
func (s promptService) Answer(ctx context.Context, r *controlpb.AnswerPromptRequest) (*controlpb.PromptResponse, error) {
	end, err := s.ending(ctx, r)
	if err != nil {
		return nil, err
	}
	id, err := prompts.ParseID(r.Id)
	if err != nil {
		return nil, err
	}
	was, err := s.Prompts.Get(id)
	if err != nil {
		return nil, err
	}
	n := note{action: "prompt.answer", subject: string(id) + ": " + was.Subject(), detail: r.Choice, strict: !r.Cancel}
	if r.Cancel {
		n.action = "prompt.cancel"
	}
	if agent, err := s.Agents.Get(string(was.Secret.Agent)); err == nil {
		n.agent = agent.Name
	}
	return answered(ctx, s.service, n, func() (*controlpb.PromptResponse, error) {
		p, taken, err := end(id)
		return &controlpb.PromptResponse{Taken: taken, Prompt: promptProto(p)}, err
	})
}

// ending returns what ends a prompt as a request says.
func (s promptService) ending(ctx context.Context, r *controlpb.AnswerPromptRequest) (func(prompts.ID) (prompts.Prompt, bool, error), error) {
	by := callerOf(ctx).cause()
	switch {
	case r.Cancel:
		return func(id prompts.ID) (prompts.Prompt, bool, error) { return s.Prompts.Cancel(ctx, id, by) }, nil
	case r.Choice != "":
		choice, err := prompts.ParseChoice(r.Choice)
		return func(id prompts.ID) (prompts.Prompt, bool, error) { return s.Prompts.Choose(ctx, id, choice, by) }, err
	}
	value, err := secrets.ParseValue(r.Value)
	return func(id prompts.ID) (prompts.Prompt, bool, error) { return s.Prompts.Answer(ctx, id, value, by) }, err
}
