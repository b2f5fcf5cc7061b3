package control

import (
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/register"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// registrationService implements the service Registrations.
type registrationService struct{ service }

// Register installs a plugin that an agent has written.
func (s registrationService) Register(ctx context.Context, r *controlpb.RegisterPluginRequest, stream *connect.ServerStream[controlpb.RegisterPluginResponse]) error {
	subject := r.GetPlugin()
	if subject == "" {
		subject = "a recipe that was handed over"
	}
	made, err := answeredFor(ctx, s.service, r.Agent, "plugin.register", subject, func(agent agents.Agent) (bridge.Created, error) {
		a := toolhost.AgentOf(agent)
		recipe, err := s.written(ctx, a, r)
		if err != nil {
			return bridge.Created{}, err
		}
		shared := sharedStream[controlpb.RegisterPluginResponse]{stream: stream}
		return s.Registrar.Register(ctx, a, recipe, register.API, func(text string) {
			// A client that disconnects ends the call's context.
			_ = shared.Send(&controlpb.RegisterPluginResponse{What: &controlpb.RegisterPluginResponse_Progress{Progress: text}})
		})
	})
	if err != nil {
		return err
	}
	plugin := &controlpb.RegisteredPlugin{
		Id: string(made.ID), Name: made.Name, Warnings: made.Warnings, Tools: protos(made.Tools, func(t bridge.CreatedTool) *controlpb.RegisteredTool {
			return &controlpb.RegisteredTool{Name: string(t.Name), Description: t.Description}
		}),
	}
	return stream.Send(&controlpb.RegisterPluginResponse{What: &controlpb.RegisterPluginResponse_Plugin{Plugin: plugin}})
}

// written returns the recipe of a request.
func (s registrationService) written(ctx context.Context, a tools.Agent, m *controlpb.RegisterPluginRequest) (plugins.Recipe, error) {
	switch from := m.From.(type) {
	case *controlpb.RegisterPluginRequest_Recipe:
		return plugins.Parse(from.Recipe)
	case *controlpb.RegisterPluginRequest_Plugin:
		id, err := config.ParsePluginID(from.Plugin)
		if err != nil {
			return plugins.Recipe{}, err
		}
		return s.Registrar.Pack(ctx, a, id)
	}
	return plugins.Recipe{}, fault.Newf(fault.InvalidArgs, "register plugin", "", "there is neither a plugin nor a recipe").
		Advise("Name the folder in the agent's ~/plugins, or hand over a recipe.")
}
