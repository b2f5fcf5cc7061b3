package toolhost

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/tools"
)

// Scripts lets the scripts of sandbox_execute_code call tools, over the bridge.
func Scripts(r *tools.Registry) bridge.Scripts { return scripts{r} }

type scripts struct{ tools *tools.Registry }

// Call implements bridge.Scripts.
func (s scripts) Call(ctx context.Context, who bridge.Caller, script, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	answer, err := s.tools.CallFromScript(ctx, who.Agent, tools.ScriptID(script), tool, arguments)
	if err != nil {
		return nil, err
	}
	return answer.MarshalJSON()
}
