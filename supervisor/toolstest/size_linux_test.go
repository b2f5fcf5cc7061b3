package toolstest_test

import (
	"encoding/json"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/tools"
)

// What a list of tools may cost of a model's context. A token is four characters,
// as everybody counts them who does not know the model.
const (
	charsPerToken = 4
	fullTokens    = 6600
	leanTokens    = 3000
	leanTools     = 12
)

// TestListIsSmall counts what clients of MCP are sent for tools/list.
func TestListIsSmall(t *testing.T) {
	b := new(hosttest.Backend)
	all := world(t, b, b).Tools
	a := tools.Agent{Settings: config.AgentDefaults()}
	a.Settings.AutonomousExec, a.Settings.PluginCreate = true, true
	for profile, most := range map[tools.Profile]int{tools.Full: fullTokens, tools.Lean: leanTokens} {
		list := all.List(a, profile)
		tokens := 0
		for _, tool := range list {
			text, err := json.Marshal(sent(tool))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s costs %d", profile, tool.Name, len(text)/charsPerToken)
			tokens += len(text) / charsPerToken
		}
		t.Logf("%s: %d tools cost %d", profile, len(list), tokens)
		if len(list) == 0 || tokens >= most {
			t.Errorf("%d tools of the profile %s cost %d tokens, and may %d", len(list), profile, tokens, most)
		}
		if profile == tools.Lean && len(list) > leanTools {
			t.Errorf("the profile %s has %d tools, and may %d", profile, len(list), leanTools)
		}
	}
}

// sent is a tool as package mcp has it.
func sent(t tools.Tool) map[string]any {
	m := map[string]any{
		"name": t.Name, "title": t.Title, "description": t.Description, "inputSchema": t.Input,
		"annotations": map[string]bool{"readOnlyHint": t.Hints.ReadOnly, "destructiveHint": t.Hints.Destructive, "idempotentHint": t.Hints.Idempotent, "openWorldHint": t.Hints.OpenWorld},
	}
	if t.Output != nil {
		m["outputSchema"] = map[string]any{"type": "object", "required": []string{"ok"}, "properties": map[string]any{"ok": map[string]string{"type": "boolean"}, "result": t.Output}}
	}
	return m
}
