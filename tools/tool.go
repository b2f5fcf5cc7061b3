// Package tools defines the tools that models call. Each has a schema, a gate, and an envelope for its results.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// Name is the name of a tool: "sandbox_exec".
type Name string

// Spec describes a tool to clients and to the registry.
type Spec struct {
	Name        Name
	Title       string // for people
	Description string // for models
	Hints       Hints
	Gate        Gate
	// Lean tools are in the small profile, for models that cannot handle many tools.
	Lean bool
	// Counted tools run commands, which are limited per turn.
	Counted bool
	// NoCheckpoint says that calls need no checkpoint of the home: they do not change it, or make
	// their own.
	NoCheckpoint bool
	// Budget bounds the time of a call, including all waits.
	Budget time.Duration
}

// Hints tell a client when to ask a person before a call.
type Hints struct {
	ReadOnly    bool // changes nothing
	Destructive bool // may delete or overwrite
	Idempotent  bool // repeating the call changes nothing
	OpenWorld   bool // reaches beyond the sandbox
}

// Gate is the agent's setting that allows a tool.
type Gate string

const (
	Always  Gate = ""                            // no setting needed
	Exec    Gate = "autonomousExec.enabled"      // tools that change something
	Plugins Gate = "autonomousExec.pluginCreate" // and Exec: tools that make plugins
)

// shutBy returns the setting that closes a gate, or "" if it is open.
func (g Gate) shutBy(s config.AgentSettings) Gate {
	switch {
	case g != Always && !s.AutonomousExec:
		return Exec
	case g == Plugins && !s.PluginCreate:
		return Plugins
	}
	return ""
}

// Check returns an error if a gate is closed for an agent.
func (g Gate) Check(what string, a Agent) error {
	by := g.shutBy(a.Settings)
	if by == "" {
		return nil
	}
	return &Failure{Kind: fault.Rejected, Message: fmt.Sprintf(
		"%s is off for this agent: its setting %s is false. A person can change that: osaurus-sandbox agent set %s %s=true", what, by, a.Name, by)}
}

// Tool is a callable tool, made by Define or Raw.
type Tool struct {
	Spec
	// Input and Output are JSON Schemas (2020-12).
	Input, Output *jsonschema.Schema
	encoded       func() (schemas, error) // encodes them once
	plugin        config.PluginID         // that it belongs to, or ""
	run           func(ctx context.Context, c *Call, arguments map[string]any) (any, error)
}

// schemas are encoded schemas.
type schemas struct{ input, output string }

// Schemas returns both schemas as JSON.
func (t Tool) Schemas() (input, output string, err error) {
	s, err := t.encoded()
	if t.Output == nil {
		s.output = "null"
	}
	return s.input, s.output, err
}

// Define makes a tool from a function with a struct of arguments. schemaOf describes its tags.
func Define[In, Out any](spec Spec, run func(ctx context.Context, c *Call, in In) (Out, error)) Tool {
	return Raw(spec, schemaOf[In](), open(schemaOf[Out]()), func(ctx context.Context, c *Call, arguments map[string]any) (any, error) {
		var in In
		text, err := json.Marshal(arguments)
		if err == nil {
			err = json.Unmarshal(text, &in)
		}
		if err != nil {
			return nil, fault.New(fault.InvalidArgs, "read arguments", string(spec.Name), err)
		}
		return run(ctx, c, in)
	})
}

// inRoom is Define for a tool that works in its agent's room.
func inRoom[In, Out any](rooms Rooms, spec Spec, run func(ctx context.Context, c *Call, in In) (Out, error)) Tool {
	return Define(spec, func(ctx context.Context, c *Call, in In) (Out, error) {
		c.room = rooms(c.Agent)
		return run(ctx, c, in)
	})
}

// Raw makes a tool with schemas that are known only at run time. Its function gets the checked
// arguments, with numbers as json.Number.
func Raw(spec Spec, input, output *jsonschema.Schema, run func(ctx context.Context, c *Call, arguments map[string]any) (any, error)) Tool {
	encoded := sync.OnceValues(func() (schemas, error) {
		in, err := json.Marshal(input)
		out, failed := json.Marshal(output)
		return schemas{string(in), string(out)}, errors.Join(err, failed)
	})
	return Tool{Spec: spec, Input: input, Output: output, encoded: encoded, run: run}
}

// Agent is the agent for whom a tool is called.
type Agent struct {
	ID       config.AgentID
	Name     config.AgentName
	User     config.LinuxUser
	Home     string // absolute, in the guest
	Settings config.AgentSettings
}

// Call is a call of a tool.
type Call struct {
	Agent
	// Turn is the caller's name for the answer that this call is for. Without one, calls are not
	// counted.
	Turn string
	// Session is the caller's name for the conversation. It groups shared artifacts.
	Session config.SessionID
	// Tell, if not nil, receives progress.
	Tell func(Progress)

	warnings []string
	registry *Registry   // of the tool
	room     engine.Room // set by inRoom
}

// Progress is the progress of a call. Total is 0 if unknown.
type Progress struct {
	Text        string
	Done, Total float64
}

// Say reports progress.
func (c *Call) Say(format string, args ...any) {
	if c.Tell != nil {
		c.Tell(Progress{Text: fmt.Sprintf(format, args...)})
	}
}

// Warn adds a warning to a successful result.
func (c *Call) Warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}
