package control

import (
	"context"
	"fmt"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/library"
	"osaurus-sandbox/plugins/source"
)

// pluginService implements the service Plugins.
type pluginService struct{ service }

func pluginProto(e library.Entry) *controlpb.Plugin {
	r := e.Recipe
	return &controlpb.Plugin{
		Id: string(e.ID), Name: r.Name, Description: r.Description, Version: r.Version, Author: r.Author, Source: r.Source,
		Revision: uint32(e.Revision), Hash: string(e.Hash), Network: string(r.Permissions.Network), Inference: r.Permissions.Inference, Daemon: r.Daemon != nil,
		CreatedBy: metadata(r, "created_by"), ImportedFrom: metadata(r, "imported_from"), Modified: moment(r.ModifiedAt),
		Tools: toolNames(e.ID, r), Secrets: names(r.Secrets),
	}
}

// toolNames returns the names of a plugin's tools.
func toolNames(id config.PluginID, r plugins.Recipe) []string {
	return protos(r.Tools, func(t plugins.Tool) string { return plugins.ToolName(id, t.ID) })
}

func brokenProto(b library.Broken) *controlpb.ListPluginsResponse_Broken {
	return &controlpb.ListPluginsResponse_Broken{Path: b.Path, Error: printable.Clip(b.Err.Error()), Advice: printable.Clip(fault.AdviceOf(b.Err))}
}

// metadata returns a text of a recipe's metadata.
func metadata(r plugins.Recipe, key string) string {
	text, _ := r.Metadata[key].(string)
	return text
}

func findingProto(f plugins.Finding) *controlpb.Finding {
	return &controlpb.Finding{
		Severity: string(f.Severity), Rule: string(f.Rule), Path: f.Path, Line: uint32(f.Line), Column: uint32(f.Column), Text: f.Text, Fix: f.Fix,
	}
}

// List lists all plugins of the library.
func (s pluginService) List(_ context.Context, _ *controlpb.ListPluginsRequest) (*controlpb.ListPluginsResponse, error) {
	entries, broken, err := s.Library.List()
	if err != nil {
		return nil, err
	}
	return &controlpb.ListPluginsResponse{Plugins: protos(entries, pluginProto), Broken: protos(broken, brokenProto)}, nil
}

// Show returns a plugin, also a broken one, so that a person can repair it.
func (s pluginService) Show(_ context.Context, r *controlpb.ShowPluginRequest) (*controlpb.ShowPluginResponse, error) {
	id, err := config.ParsePluginID(r.Plugin)
	if err != nil {
		return nil, err
	}
	text, err := s.Library.Text(id, library.Revision(r.Revision))
	if err != nil {
		return nil, err
	}
	answer := &controlpb.ShowPluginResponse{Recipe: text}
	get := func() (library.Entry, error) { return s.Library.Get(id) }
	if r.Revision != 0 {
		get = func() (library.Entry, error) { return s.Library.At(id, library.Revision(r.Revision)) }
	}
	if e, err := get(); err != nil {
		answer.Error = err.Error()
	} else {
		answer.Plugin = pluginProto(e)
	}
	return answer, nil
}

// Lint returns what is wrong with a recipe.
func (s pluginService) Lint(_ context.Context, r *controlpb.LintPluginRequest) (*controlpb.LintPluginResponse, error) {
	return &controlpb.LintPluginResponse{Findings: protos(plugins.Lint(r.Recipe), findingProto)}, nil
}

// Import saves a recipe.
func (s pluginService) Import(ctx context.Context, r *controlpb.ImportPluginRequest) (*controlpb.ImportPluginResponse, error) {
	answer := &controlpb.ImportPluginResponse{}
	from, subject := r.GetSource(), "a recipe that was handed over"
	if from != "" {
		subject = from
	}
	return answer, s.audited(ctx, note{action: "plugin.import", subject: subject, strict: true}, func() error {
		recipe, err := s.recipe(ctx, r, answer)
		if err != nil {
			return err
		}
		answer.Warnings = protos(plugins.Validate(recipe), findingProto)
		e, err := s.keep(recipe, r)
		answer.Plugin = pluginProto(e)
		return err
	})
}

// recipe returns the recipe that a request contains or names.
func (s pluginService) recipe(ctx context.Context, r *controlpb.ImportPluginRequest, answer *controlpb.ImportPluginResponse) (plugins.Recipe, error) {
	if r.GetSource() == "" {
		return plugins.Parse(r.GetRecipe())
	}
	where, err := source.Parse(r.GetSource())
	if err != nil {
		return plugins.Recipe{}, err
	}
	fetched, err := s.Sources.Get(ctx, where)
	answer.From, answer.Sha256 = fetched.From, fetched.SHA256
	return fetched.Recipe, err
}

// keep saves a recipe, unless the request is a dry run.
func (s pluginService) keep(recipe plugins.Recipe, r *controlpb.ImportPluginRequest) (library.Entry, error) {
	if r.DryRun {
		id, err := recipe.ID()
		if err != nil {
			return library.Entry{}, err
		}
		hash, err := recipe.Hash()
		return library.Entry{ID: id, Recipe: recipe, Hash: hash}, err
	}
	may := library.Create
	if r.Update {
		may = library.Update
	}
	return s.Library.Save(recipe, may)
}

// changed runs do for a plugin and audits it.
func (s pluginService) changed(ctx context.Context, action, plugin, detail string, do func(config.PluginID) (library.Entry, error)) (*controlpb.PluginResponse, error) {
	id, err := config.ParsePluginID(plugin)
	if err != nil {
		return nil, err
	}
	n := note{action: action, subject: plugin, detail: detail, strict: true}
	e, err := answered(ctx, s.service, n, func() (library.Entry, error) { return do(id) })
	return &controlpb.PluginResponse{Plugin: pluginProto(e)}, err
}

// Duplicate copies a plugin.
func (s pluginService) Duplicate(ctx context.Context, r *controlpb.DuplicatePluginRequest) (*controlpb.PluginResponse, error) {
	return s.changed(ctx, "plugin.duplicate", r.Plugin, r.Name, func(id config.PluginID) (library.Entry, error) { return s.Library.Duplicate(id, r.Name) })
}

// History lists the revisions of a plugin.
func (s pluginService) History(_ context.Context, r *controlpb.PluginHistoryRequest) (*controlpb.PluginHistoryResponse, error) {
	id, err := config.ParsePluginID(r.Plugin)
	if err != nil {
		return nil, err
	}
	history, err := s.Library.History(id)
	if err != nil {
		return nil, err
	}
	answer := &controlpb.PluginHistoryResponse{}
	for _, p := range history {
		revision := &controlpb.PluginHistoryResponse_Revision{Revision: uint32(p.Revision), Current: p.Current, Version: p.Recipe.Version, Hash: string(p.Hash), Modified: moment(p.Recipe.ModifiedAt)}
		if p.Err != nil {
			revision.Error = p.Err.Error()
		}
		answer.Revisions = append(answer.Revisions, revision)
	}
	return answer, nil
}

// Rollback restores a revision of a plugin.
func (s pluginService) Rollback(ctx context.Context, r *controlpb.RollbackPluginRequest) (*controlpb.PluginResponse, error) {
	n := library.Revision(r.Revision)
	return s.changed(ctx, "plugin.rollback", r.Plugin, fmt.Sprint(n), func(id config.PluginID) (library.Entry, error) { return s.Library.Rollback(id, n) })
}

// Remove deletes a plugin.
func (s pluginService) Remove(ctx context.Context, r *controlpb.RemovePluginRequest) (*controlpb.RemovePluginResponse, error) {
	_, err := s.changed(ctx, "plugin.remove", r.Plugin, "", func(id config.PluginID) (library.Entry, error) { return library.Entry{}, s.Library.Remove(id) })
	return &controlpb.RemovePluginResponse{}, err
}
