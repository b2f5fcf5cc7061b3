// Package tools is what a model can call: each tool with its schema and its gate, one form of arguments in, and one envelope out.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Name is what a tool is called by: "sandbox_exec".
type Name string

// Spec is what the world is told of a tool.
type Spec struct {
	Name        Name
	Title       string // for people
	Description string // for models
	Hints       Hints
	Gate        Gate
	// Lean tools are those of the small profile, for models that cannot hold
	// many tools in mind.
	Lean bool
	// Counted tools run commands, of which an agent has so many in a turn.
	Counted bool
	// Budget is how long a call may take, with all that it waits for. No other clock
	// cuts it short.
	Budget time.Duration
}

// Hints tell a client what to ask a person before a call.
type Hints struct {
	ReadOnly    bool // changes nothing
	Destructive bool // may take something away
	Idempotent  bool // the same call twice does what it does once
	OpenWorld   bool // reaches what is outside of the sandbox
}

// Gate is the setting of an agent that a tool needs.
type Gate string

const (
	Always  Gate = ""                            // no setting
	Exec    Gate = "autonomousExec.enabled"      // what changes something
	Plugins Gate = "autonomousExec.pluginCreate" // and with that one: what makes plugins
)

// shut reports which setting keeps a gate shut, if one does.
func (g Gate) shut(s config.AgentSettings) (by Gate, is bool) {
	switch {
	case g == Always:
		return "", false
	case !s.AutonomousExec:
		return Exec, true
	case g == Plugins && !s.PluginCreate:
		return Plugins, true
	}
	return "", false
}

// Check refuses what is behind a gate to an agent for whom it is shut.
func (g Gate) Check(what string, a Agent) error {
	by, shut := g.shut(a.Settings)
	if !shut {
		return nil
	}
	return &Failure{Kind: fault.Rejected, Message: fmt.Sprintf(
		"%s is off for this agent: its setting %s is false. A person can change that: osaurus-sandbox agent set %s %s=true", what, by, a.Name, by)}
}

// Tool is something that a model can call. Define and Raw make one.
type Tool struct {
	Spec
	// Input and Output are the schemas of arguments and result, of 2020-12.
	Input, Output *jsonschema.Schema
	texts         func() (schemaTexts, error)
	run           func(ctx context.Context, c *Call, arguments map[string]any) (any, error)
}

// schemaTexts are a tool's schemas as JSON.
type schemaTexts struct{ input, output string }

// Schemas are both schemas as JSON, written when first asked for: of all that a list of hundreds of tools
// costs, that was nearly everything.
func (t Tool) Schemas() (input, output string, err error) {
	both, err := t.texts()
	if t.Output == nil {
		both.output = "null"
	}
	return both.input, both.output, err
}

// Define makes a tool of a function whose arguments are a struct: see schemaOf
// for what its tags say.
func Define[In, Out any](spec Spec, run func(ctx context.Context, c *Call, in In) (Out, error)) Tool {
	return Raw(spec, schemaOf[In](), open(schemaOf[Out]()), func(ctx context.Context, c *Call, arguments map[string]any) (any, error) {
		var in In
		if err := fill(reflect.ValueOf(&in).Elem(), arguments); err != nil {
			return nil, fault.New(fault.InvalidArgs, "read arguments", string(spec.Name), err)
		}
		return run(ctx, c, in)
	})
}

// fill puts arguments into a struct, by the names that its fields have in JSON. A text goes
// as it is and not through JSON again: it may be all of a file.
func fill(in reflect.Value, arguments map[string]any) error {
	for _, f := range reflect.VisibleFields(in.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		value, there := arguments[name]
		if !there {
			continue
		}
		field := in.FieldByIndex(f.Index)
		if text, ok := value.(string); ok && field.Kind() == reflect.String {
			field.SetString(text)
			continue
		}
		raw, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(raw, field.Addr().Interface())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Raw makes a tool of a function that takes its arguments as they come out of
// the preflight, numbers as json.Number, for schemas that are known only when the
// program runs.
func Raw(spec Spec, input, output *jsonschema.Schema, run func(ctx context.Context, c *Call, arguments map[string]any) (any, error)) Tool {
	return Tool{Spec: spec, Input: input, Output: output, run: run, texts: sync.OnceValues(func() (schemaTexts, error) {
		in, err := json.Marshal(input)
		out, failed := json.Marshal(output)
		return schemaTexts{string(in), string(out)}, errors.Join(err, failed)
	})}
}

// Agent is for whom a tool is called. Everything in it comes with the request:
// nothing is taken from what happens to be active.
type Agent struct {
	ID       config.AgentID
	Name     config.AgentName
	User     config.LinuxUser
	Home     string // absolute, in the guest
	Settings config.AgentSettings
}

// Call is one call of a tool, as its function sees it.
type Call struct {
	Agent
	// Turn is what the caller calls the answer that this call is for; without one,
	// calls are not counted.
	Turn string
	// Session is what the caller calls the conversation: what is shared in it is kept
	// together.
	Session config.SessionID
	// Client says who calls, for the audit.
	Client string
	// Tell, if not nil, is told how far a long call has come.
	Tell func(Progress)

	warnings []string
	registry *Registry // that the tool is of
}

// Progress is how far a call has come. Total is 0 where nobody knows.
type Progress struct {
	Text        string
	Done, Total float64
}

// Say tells whoever waits how far the call has come.
func (c *Call) Say(format string, args ...any) {
	if c.Tell != nil {
		c.Tell(Progress{Text: fmt.Sprintf(format, args...)})
	}
}

// Warn adds a warning to the answer: it went well, and yet.
func (c *Call) Warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}
