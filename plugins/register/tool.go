package register

import (
	"context"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

type toolIn struct {
	PluginID string `json:"plugin_id" jsonschema:"the name of its folder in ~/plugins" limit:"minlen=1"`
}

type toolOut struct {
	Status     string               `json:"status"`
	PluginID   string               `json:"plugin_id"`
	PluginName string               `json:"plugin_name"`
	Tools      []bridge.CreatedTool `json:"tools" jsonschema:"they can be called now"`
}

// Tool returns sandbox_plugin_register.
func (g *Registrar) Tool() tools.Tool {
	return tools.Define(tools.Spec{
		Name: "sandbox_plugin_register", Title: "Register a plugin", Gate: tools.Plugins, Budget: toolBudget,
		Hints: tools.Hints{Idempotent: true, OpenWorld: true},
		Description: `Make tools of your own: register the plugin that you have written into ~/plugins/PLUGIN_ID. Its plugin.json has name, description and tools, each with ` +
			`id, description, parameters ({"file": {"type": "string"}}) and run, a shell command that finds its arguments in the environment ("$PARAM_FILE") and runs in that folder. ` +
			`Optional: dependencies, setup, secrets, permissions, daemon, events. All text files beside it become the plugin's. The tools are called PLUGIN_ID_TOOLID, and can be called at once.`,
	}, func(ctx context.Context, c *tools.Call, in toolIn) (toolOut, error) {
		id, err := config.ParsePluginID(in.PluginID)
		if err != nil {
			return toolOut{}, &tools.Failure{Kind: fault.InvalidArgs, Field: "plugin_id", Expected: fault.AdviceOf(err), Message: err.Error(), Cause: err}
		}
		c.Say("reading ~/plugins/%s", id)
		r, err := g.Pack(ctx, c.Agent, id)
		if err != nil {
			return toolOut{}, err
		}
		made, err := g.Register(ctx, c.Agent, r, Tool, func(text string) { c.Say("%s", text) })
		if err != nil {
			return toolOut{}, err
		}
		for _, warning := range made.Warnings {
			c.Warn("%s", warning)
		}
		return toolOut{Status: made.Status, PluginID: string(made.ID), PluginName: made.Name, Tools: append([]bridge.CreatedTool{}, made.Tools...)}, nil // [] instead of null
	})
}
