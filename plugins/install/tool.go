package install

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
	"osaurus-sandbox/tools/packages"
)

const (
	// maxParam bounds one argument: Linux passes no variable longer than 128 KiB.
	maxParam = 96 << 10
	// patience is how long a call may wait in addition to its tool's timeout: for the guest to
	// start, and for the agent's plugins to be verified and repaired.
	patience = 8 * time.Minute
)

// Command returns a shell command of a plugin: a setup, tool, daemon or handler. It runs as the
// agent in the plugin's folder, without the agent's virtual Python environment.
func Command(a tools.Agent, plugin config.PluginID, run string) engine.Command {
	const shell = `if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; else exec /bin/sh -c "$1"; fi`
	modules := packages.Workspace(a.Home) + "/node_modules"
	return engine.Command{
		Args: []string{"/bin/sh", "-c", shell, "sh", run}, Dir: folderOf(a, plugin),
		Env: []string{
			"OSAURUS_PLUGIN=" + string(plugin),
			"PATH=" + a.Home + "/.local/bin:" + modules + "/.bin:" + guest.SystemPath + ":" + packages.Venv(a.Home) + "/bin",
			"NODE_PATH=" + modules,
			// The distribution's own Python refuses `pip install`, also for the user alone.
			"PIP_BREAK_SYSTEM_PACKAGES=1",
		},
	}
}

// toolsOf returns the tools of a plugin.
func (i *Installer) toolsOf(r Record) []tools.Tool {
	var list []tools.Tool
	for _, t := range r.Plugin.Tools {
		list = append(list, i.toolOf(r, t))
	}
	return list
}

func (i *Installer) toolOf(r Record, t plugins.Tool) tools.Tool {
	return tools.Raw(tools.Spec{
		Name: tools.Name(plugins.ToolName(r.ID, t.ID)), Title: fmt.Sprintf("%s of the plugin %s", t.ID, r.Plugin.Name), Description: t.Description,
		Gate: tools.Exec, Budget: t.Limit() + patience,
		Hints: tools.Hints{Destructive: true, OpenWorld: r.Plugin.Permissions.Network != plugins.NetworkNone},
	}, schemaOf(t.Parameters), outputOf(t), func(ctx context.Context, c *tools.Call, arguments map[string]any) (any, error) {
		return i.call(ctx, c, r, t, arguments)
	})
}

// schemaOf returns the schema of a tool's arguments.
func schemaOf(params map[plugins.ParamName]plugins.Param) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		p := params[name]
		property := &jsonschema.Schema{Type: string(p.Type), Description: p.Description}
		if p.Default != nil {
			property.Default, _ = json.Marshal(valued(p.Type, *p.Default)) // it was JSON before
		}
		for _, choice := range p.Enum {
			property.Enum = append(property.Enum, valued(p.Type, choice))
		}
		if p.MustBeGiven() {
			s.Required = append(s.Required, string(name))
		}
		s.Properties[string(name)] = property
	}
	return s
}

// outputOf returns the schema of a tool's result.
func outputOf(t plugins.Tool) *jsonschema.Schema {
	if t.Output == plugins.JSON {
		return &jsonschema.Schema{} // any value
	}
	return &jsonschema.Schema{Type: "object", Required: []string{"stdout", "stderr", "exit_code"}, Properties: map[string]*jsonschema.Schema{
		"stdout": {Type: "string"}, "stderr": {Type: "string"}, "exit_code": {Type: "integer"}, "truncated": {Type: "boolean", Description: "the middle of the output was left out"},
	}}
}

// valued returns a recipe's text as a value of its type.
func valued(t plugins.ParamType, text plugins.Literal) (v any) {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if t == plugins.String || dec.Decode(&v) != nil {
		return string(text)
	}
	return v
}

// call runs a tool.
func (i *Installer) call(ctx context.Context, c *tools.Call, r Record, t plugins.Tool, arguments map[string]any) (any, error) {
	env, err := variables(arguments)
	if err != nil {
		return nil, err
	}
	cmd := Command(c.Agent, r.ID, t.Run)
	cmd.Env, cmd.Timeout = append(cmd.Env, env...), t.Limit()
	if err := i.Life.Command(ctx, c.Agent, r.ID, r.Plugin, false, &cmd); err != nil {
		return nil, err
	}
	ran, err := i.run(ctx, c, r, cmd)
	if err != nil {
		return nil, err
	}
	return result(t, ran)
}

// run runs a plugin's command when the plugin is verified and nobody changes it. If its folder
// has disappeared, it repairs the plugin and tries once more.
func (i *Installer) run(ctx context.Context, c *tools.Call, r Record, cmd engine.Command) (tools.Ran, error) {
	for repaired := false; ; repaired = true {
		if err := i.Ready(ctx, c.Agent); err != nil {
			return tools.Ran{}, err
		}
		if err := i.waitTurn(ctx, c.Agent, r.ID); err != nil {
			return tools.Ran{}, err
		}
		ran, err := tools.Run(ctx, i.Room(c.Agent), cmd)
		if err == nil || repaired || fault.KindOf(err) != fault.NotFound && fault.KindOf(err) != fault.InvalidArgs {
			return ran, err
		}
		c.Say("repairing the plugin %s", r.ID)
		if _, err := i.Verify(ctx, c.Agent, Missing, "a tool", r.ID); err != nil {
			return tools.Ran{}, err
		}
	}
}

// variables returns arguments as environment variables: strings as they are, other values as
// JSON. No shell interprets them.
func variables(arguments map[string]any) ([]string, error) {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		refuse := func(expected, why string) error {
			return &tools.Failure{Kind: fault.InvalidArgs, Field: name, Expected: expected, Message: fmt.Sprintf("the argument %q %s", name, why)}
		}
		text, is := arguments[name].(string)
		if !is {
			raw, err := json.Marshal(arguments[name])
			if err != nil {
				return nil, refuse("a value that JSON can hold", err.Error())
			}
			text = string(raw)
		}
		switch {
		case strings.ContainsRune(text, 0):
			return nil, refuse("a text without NUL characters", "holds a NUL character")
		case len(text) > maxParam:
			return nil, refuse(fmt.Sprintf("at most %d bytes; write longer texts to a file", maxParam), fmt.Sprintf("has %d bytes", len(text)))
		}
		env = append(env, plugins.ParamName(name).Variable()+"="+text)
	}
	return env, nil
}

// outcome is the result of a tool with text output.
type outcome struct {
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	ExitCode  int    `json:"exit_code"`
	Truncated bool   `json:"truncated,omitempty"`
}

// result makes the result of a command in the tool's output format.
func result(t plugins.Tool, ran tools.Ran) (any, error) {
	fail := func(kind fault.Kind, format string, args ...any) error {
		more := map[string]any{"stdout": ran.Stdout, "stderr": ran.Stderr, "exit_code": ran.ExitCode}
		if ran.Limit != "" {
			more["limit"] = ran.Limit
		}
		return &tools.Failure{Kind: kind, Message: fmt.Sprintf(format, args...), More: more}
	}
	switch {
	case ran.TimedOut:
		return nil, fail(fault.Timeout, "it did not finish within %v", t.Limit())
	case ran.ExitCode != 0:
		return nil, fail(fault.Execution, "it failed with exit code %d: stderr says why", ran.ExitCode)
	case t.Output != plugins.JSON:
		return outcome{Stdout: ran.Stdout, Stderr: ran.Stderr, ExitCode: ran.ExitCode, Truncated: ran.Truncated}, nil
	case ran.StdoutCut:
		return nil, fail(fault.Execution, "its output has more than %d characters, which is more than is read of JSON: have it print less, or write a file and print the file's path", tools.MaxStdout)
	}
	var value json.RawMessage
	if err := json.Unmarshal([]byte(ran.Stdout), &value); err != nil {
		return nil, fail(fault.Execution, "its output is not one JSON value: %v", err)
	}
	return value, nil
}
