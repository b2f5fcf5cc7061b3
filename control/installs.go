package control

import (
	"cmp"
	"context"
	"fmt"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/register"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// installService implements the service Installs.
type installService struct{ service }

// installedProto converts an agent's plugin. It is not outdated if the library lacks it.
func (s installService) installedProto(agent config.AgentName, r install.Record) *controlpb.InstalledPlugin {
	p := &controlpb.InstalledPlugin{
		Agent: string(agent), Plugin: string(r.ID), Name: r.Plugin.Name, Version: r.Plugin.Version, Status: string(r.Status), Disabled: r.Disabled,
		Hash: string(r.Hash), Installed: moment(r.InstalledAt), Warnings: r.Plugin.Caveats(), WithoutSecrets: names(r.Without),
	}
	if e, err := s.Library.Get(r.ID); err == nil {
		p.Outdated = e.Hash != r.Hash
	}
	if r.Status == install.Ready { // otherwise they cannot be called
		p.Tools = toolNames(r.ID, r.Plugin)
	}
	if f := r.Failure; f != nil {
		p.Failure = &controlpb.InstallFailure{Step: string(f.Step), Kind: string(f.Kind), Message: f.Message, Advice: f.Advice, Time: moment(f.Time), Version: f.Version}
	}
	if r.Doing != nil {
		p.Step = string(r.Doing.Step)
	}
	return p
}

// List lists the plugins of an agent, or of all.
func (s installService) List(_ context.Context, r *controlpb.ListInstalledRequest) (*controlpb.ListInstalledResponse, error) {
	all := s.Agents.List()
	if r.Agent != "" {
		agent, err := s.Agents.Get(r.Agent)
		if err != nil {
			return nil, err
		}
		all = []agents.Agent{agent}
	}
	answer := &controlpb.ListInstalledResponse{}
	for _, agent := range all {
		list, err := s.Plugins.List(agent.ID)
		for _, record := range list {
			answer.Plugins = append(answer.Plugins, s.installedProto(agent.Name, record))
		}
		if err != nil {
			answer.Broken = append(answer.Broken, &controlpb.ListInstalledResponse_Broken{
				Agent: string(agent.Name), Error: printable.Clip(err.Error()), Advice: fault.AdviceOf(err),
			})
		}
	}
	return answer, nil
}

// onPlugin runs do for a plugin of an agent and audits it.
func (s installService) onPlugin(ctx context.Context, agent, plugin, action string, do func(agents.Agent, config.PluginID) (install.Record, error)) (*controlpb.InstalledPlugin, error) {
	id, err := config.ParsePluginID(plugin)
	if err != nil {
		return nil, err
	}
	return answeredFor(ctx, s.service, agent, action, string(id), func(a agents.Agent) (*controlpb.InstalledPlugin, error) {
		record, err := do(a, id)
		return s.installedProto(a.Name, record), err
	})
}

type installStream = *connect.ServerStream[controlpb.InstallPluginResponse]

// reportTo returns a function that sends the progress of an installation.
func reportTo(stream installStream) progress.Func {
	return reporting(stream, func(e *controlpb.ProgressEvent) *controlpb.InstallPluginResponse {
		return &controlpb.InstallPluginResponse{Progress: e}
	})
}

// Install installs a plugin of the library.
func (s installService) Install(ctx context.Context, r *controlpb.InstallPluginRequest, stream installStream) error {
	action, report := "plugin.install", reportTo(stream)
	if r.Update {
		action = "plugin.update"
	}
	answer, err := s.onPlugin(ctx, r.Agent, r.Plugin, action, func(a agents.Agent, id config.PluginID) (install.Record, error) {
		entry, err := s.Library.Get(id)
		if err != nil {
			return install.Record{}, err
		}
		before, there := s.Plugins.Find(a.ID, id)
		switch {
		case r.Update && !there:
			return before, fault.Newf(fault.NotFound, "update plugin", string(id), "%s does not have it", a.Name).
				Advise(fmt.Sprintf("Install it: osaurus-sandbox plugin install %s %s", id, a.Name))
		case r.Update && before.Status == install.Ready && before.Hash == entry.Hash:
			return before, nil
		}
		return s.Plugins.Install(ctx, toolhost.AgentOf(a), entry.Recipe, install.How{
			By: string(callerOf(ctx).cause()), WithoutSecrets: r.WithoutSecrets,
			Tell: func(p install.Progress) { report(progress.Event{Step: string(p.Step), Note: p.Text}) },
		})
	})
	if err != nil {
		return err
	}
	return stream.Send(&controlpb.InstallPluginResponse{Plugin: answer})
}

// Register installs a plugin that an agent has written.
func (s installService) Register(ctx context.Context, r *controlpb.RegisterPluginRequest, stream installStream) error {
	subject, report := cmp.Or(r.GetPlugin(), "a recipe that was handed over"), reportTo(stream)
	answer, err := answeredFor(ctx, s.service, r.Agent, "plugin.register", subject, func(agent agents.Agent) (*controlpb.InstalledPlugin, error) {
		a := toolhost.AgentOf(agent)
		recipe, err := s.written(ctx, a, r)
		if err != nil {
			return nil, err
		}
		made, err := s.Registrar.Register(ctx, a, recipe, register.API, func(text string) { report(progress.Event{Step: "register", Note: text}) })
		if err != nil {
			return nil, err
		}
		record, _ := s.Plugins.Find(agent.ID, made.ID)
		p := s.installedProto(agent.Name, record)
		p.Warnings = made.Warnings
		return p, nil
	})
	if err != nil {
		return err
	}
	return stream.Send(&controlpb.InstallPluginResponse{Plugin: answer})
}

// written returns the recipe of a request.
func (s installService) written(ctx context.Context, a tools.Agent, r *controlpb.RegisterPluginRequest) (plugins.Recipe, error) {
	switch from := r.From.(type) {
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

// Uninstall removes a plugin from an agent.
func (s installService) Uninstall(ctx context.Context, r *controlpb.UninstallPluginRequest) (*controlpb.UninstallPluginResponse, error) {
	id, err := config.ParsePluginID(r.Plugin)
	if err != nil {
		return nil, err
	}
	return &controlpb.UninstallPluginResponse{}, s.onRecord(ctx, r.Agent, "plugin.uninstall", string(id), func(a agents.Agent) error {
		return s.Plugins.Uninstall(ctx, toolhost.AgentOf(a), id, string(callerOf(ctx).cause()))
	})
}

// Enable enables a plugin's tools, or disables them.
func (s installService) Enable(ctx context.Context, r *controlpb.EnablePluginRequest) (*controlpb.InstalledPluginResponse, error) {
	action := "plugin.enable"
	if r.Disable {
		action = "plugin.disable"
	}
	p, err := s.onPlugin(ctx, r.Agent, r.Plugin, action, func(a agents.Agent, id config.PluginID) (install.Record, error) {
		return s.Plugins.Enable(ctx, toolhost.AgentOf(a), id, !r.Disable, string(callerOf(ctx).cause()))
	})
	return &controlpb.InstalledPluginResponse{Plugin: p}, err
}

// Verify checks whether plugins are as they were installed.
func (s installService) Verify(ctx context.Context, r *controlpb.VerifyPluginsRequest) (*controlpb.VerifyPluginsResponse, error) {
	repair := cmp.Or(install.Repair(r.Repair), install.Missing)
	switch repair {
	case install.Nothing, install.Missing, install.All:
	default:
		return nil, fault.Newf(fault.InvalidArgs, "verify plugins", r.Repair, "unknown value").Advise(`It is "nothing", "missing" or "all".`)
	}
	which, err := parseAll(r.Plugins, config.ParsePluginID)
	if err != nil {
		return nil, err
	}
	reports, err := answeredFor(ctx, s.service, r.Agent, "plugin.verify", string(repair), func(a agents.Agent) ([]install.Report, error) {
		return s.Plugins.Verify(ctx, toolhost.AgentOf(a), repair, string(callerOf(ctx).cause()), which...)
	})
	return &controlpb.VerifyPluginsResponse{Reports: protos(reports, reportProto)}, err
}

func reportProto(r install.Report) *controlpb.VerifyPluginsResponse_Report {
	p := &controlpb.VerifyPluginsResponse_Report{Plugin: string(r.Plugin), Problems: r.Problems, Repaired: r.Repaired}
	if r.Err != nil {
		p.Error, p.Advice = r.Err.Error(), fault.AdviceOf(r.Err)
	}
	return p
}
