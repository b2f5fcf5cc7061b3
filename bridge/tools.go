package bridge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// toolText matches names of tools and ids of scripts.
var toolText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func createPlugin(c *call) error {
	var recipe map[string]json.RawMessage
	if err := c.decode(&recipe); err != nil {
		return err
	}
	if err := c.accept(config.HTTPCalls); err != nil {
		return err
	}
	made, err := c.server.Services.Plugins.Create(c.r.Context(), c.who, c.body)
	c.record(CreatePlugin, cmp.Or(string(made.ID), brief(string(recipe["name"]))), err)
	made.Tools = append([]CreatedTool{}, made.Tools...) // [] instead of null
	return c.answer(made, err)
}

// callTool lets a script call a tool.
func callTool(c *call) error {
	const op = "call tool"
	script := c.r.Header.Values(wire.HeaderScript)
	if len(script) != 1 || !toolText.MatchString(script[0]) {
		return fault.Newf(fault.InvalidArgs, op, brief(c.name), "the script's id is missing").Advise("Send the header " + wire.HeaderScript + " once.")
	}
	if !toolText.MatchString(c.name) {
		return fault.Newf(fault.InvalidArgs, op, brief(c.name), "not a tool's name").Advise("Call one of the agent's tools.")
	}
	arguments, err := c.arguments()
	if err != nil {
		return err
	}
	envelope, err := c.server.Services.Scripts.Call(c.r.Context(), c.who, script[0], c.name, arguments)
	if err != nil {
		return err
	}
	var end struct {
		OK      bool       `json:"ok"`
		Kind    fault.Kind `json:"kind"`
		Message string     `json:"message"`
	}
	if err := json.Unmarshal(envelope, &end); err != nil {
		return fmt.Errorf("tool %s: its envelope: %w", c.name, err)
	}
	if !end.OK {
		err = fault.New(end.Kind, op, c.name, errors.New(end.Message))
	}
	c.record(CallTool, c.name, err) // refused calls are not recorded: they could fill the audit log
	return c.answer(envelope, nil)
}

// arguments returns the body's member "arguments" if that is an object, or else the body.
func (c *call) arguments() (json.RawMessage, error) {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return json.RawMessage("{}"), nil
	}
	var body map[string]json.RawMessage
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if inner := body["arguments"]; len(inner) > 0 && inner[0] == '{' {
		return inner, nil
	}
	return c.body, nil
}
