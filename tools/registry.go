package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

const (
	// usualBudget is the default budget of a tool.
	usualBudget = 2 * time.Minute
	// budgetSlack is how much longer than its budget a call may run before it is abandoned.
	budgetSlack = 10 * time.Second
)

// Redact removes secrets from a text.
type Redact func(text string) string

// Registry holds the tools. Its methods may be called from any goroutine.
type Registry struct {
	// Redactor returns a function that removes an agent's secrets from results. It may be nil, or
	// return nil.
	Redactor func(context.Context, Agent) Redact
	// Starting returns what reports the start of an agent's guest; it may be nil.
	Starting func(Agent) Starting
	Log      *slog.Logger

	turns   turns
	scripts scripts

	mu      sync.Mutex
	tools   map[Name]Tool
	own     map[config.AgentID]map[Name]Tool
	changed notify.Notifier
}

// NewRegistry returns a registry of tools.
func NewRegistry(log *slog.Logger, list ...Tool) *Registry {
	r := &Registry{Log: log, tools: map[Name]Tool{}, own: map[config.AgentID]map[Name]Tool{}}
	for _, t := range list {
		r.Add(t)
	}
	return r
}

// Add adds a tool or replaces the one with the same name.
func (r *Registry) Add(t Tool) {
	t.Budget = cmp.Or(t.Budget, usualBudget)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools[t.Name] = t
	r.changed.Notify()
}

// Changed returns a channel that is closed when List would return something else.
func (r *Registry) Changed() <-chan struct{} { return r.changed.Next() }

// Profile selects which tools a client sees.
type Profile string

const (
	Full Profile = "full"
	Lean Profile = "lean" // few tools, enough for most work
)

// List returns the tools that an agent may call, sorted by name.
func (r *Registry) List(a Agent, p Profile) []Tool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Tool
	add := func(t Tool) {
		if t.Gate.shutBy(a.Settings) != "" || p == Lean && !t.Lean {
			return
		}
		if p == Lean {
			t.Output = nil // half of a tool's size, and models see the result itself
		}
		list = append(list, t)
	}
	for _, t := range r.tools {
		add(t)
	}
	for _, t := range r.own[a.ID] {
		add(t)
	}
	slices.SortFunc(list, func(a, b Tool) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return list
}

// Get finds a tool of all agents or of one, without checking whether the agent may call it.
func (r *Registry) Get(agent config.AgentID, name string) (Tool, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok := r.tools[Name(name)]; ok {
		return t, true
	}
	t, ok := r.own[agent][Name(name)]
	return t, ok
}

// Call calls a tool and returns its envelope, which also reports every failure.
func (r *Registry) Call(ctx context.Context, c Call, name string, arguments json.RawMessage) Envelope {
	t, ok := r.Get(c.ID, name)
	if !ok {
		return r.seal(ctx, c, noSuchTool(name), nil)
	}
	c.registry = r
	result, err := r.admit(ctx, t, &c, arguments)
	return r.seal(ctx, c, Envelope{Tool: t.Name, Result: result, Warnings: c.warnings}, err)
}

// admit checks the gate, the arguments and the turn's limit, and then runs the tool.
func (r *Registry) admit(ctx context.Context, t Tool, c *Call, arguments json.RawMessage) (result any, err error) {
	if err := t.Gate.Check(string(t.Name), c.Agent); err != nil {
		return nil, err
	}
	in, err := preflight(t.Input, arguments, c.Warn)
	if err != nil {
		return nil, err
	}
	if t.Counted {
		if err := r.turns.take(c.ID, c.Turn, c.Settings.MaxCommandsPerTurn); err != nil {
			return nil, err
		}
	}
	return r.run(ctx, t, c, in)
}

// run runs a tool within its budget and recovers from panics.
func (r *Registry) run(ctx context.Context, t Tool, c *Call, in map[string]any) (result any, err error) {
	over := fault.Newf(fault.Timeout, "call", string(t.Name), "it did not finish within %v", t.Budget)
	ctx, cancel := context.WithTimeoutCause(ctx, t.Budget+budgetSlack, over)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.Log.Error("a tool panicked", "tool", t.Name, "agent", c.Name, "panic", p, "stack", string(debug.Stack()))
			err = fault.Newf(fault.Execution, "call", string(t.Name), "internal error; see the daemon's log")
		}
	}()
	end := r.follow(ctx, c)
	defer end()
	result, err = t.run(ctx, c, in)
	if err != nil && context.Cause(ctx) == error(over) {
		err = r.overdue(c.Agent, over)
	}
	return result, err
}

// seal builds the envelope and removes secrets from it.
func (r *Registry) seal(ctx context.Context, c Call, e Envelope, err error) Envelope {
	if err != nil {
		e = fail(e.Tool, err)
	}
	if r.Redactor == nil {
		return e
	}
	// Redact even if the caller has left: the envelope may be logged.
	redact := r.Redactor(context.WithoutCancel(ctx), c.Agent)
	if redact == nil {
		return e
	}
	return e.redacted(redact)
}
