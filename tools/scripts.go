package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// maxScriptCalls bounds the tool calls of one script. It is enough for real work and stops endless
// loops.
const maxScriptCalls = 50

// scriptable returns the tools that a script may call. Asking people, making plugins and starting
// other scripts are excluded.
func scriptable() []Name {
	return []Name{
		"sandbox_read_file", "sandbox_write_file", "sandbox_edit_file", "sandbox_search_files", "sandbox_exec", "sandbox_process",
		"sandbox_install", "sandbox_pip_install", "sandbox_npm_install", "sandbox_secret_check", "share_artifact",
	}
}

// ScriptID identifies a running script: 130 random bits that cannot be guessed.
type ScriptID string

// scripts holds the running scripts. The zero value is ready.
type scripts struct {
	mu      sync.Mutex // also guards script.calls
	running map[ScriptID]*script
}

// script is a running script.
type script struct {
	of    Call            // the call that runs it; the script inherits its agent, turn and settings
	life  context.Context // ends with the script
	work  sync.WaitGroup  // its calls
	calls int
}

// errEnded cancels calls of a script that has ended.
var errEnded = fault.Newf(fault.Rejected, "call tool", "", "the script that called it has ended")

// begin registers a script until end is called. end cancels its calls, waits for them and returns
// their number.
func (s *scripts) begin(ctx context.Context, of Call) (id ScriptID, end func() (calls int)) {
	of.Tell, of.warnings = nil, nil // the script's calls may run concurrently
	id = ScriptID(rand.Text())
	life, cancel := context.WithCancelCause(ctx)
	one := &script{of: of, life: life}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = map[ScriptID]*script{}
	}
	s.running[id] = one
	return id, sync.OnceValue(func() int {
		s.mu.Lock()
		delete(s.running, id)
		s.mu.Unlock()
		cancel(errEnded)
		one.work.Wait()
		return one.calls
	})
}

// take counts a call of an agent's running script. The caller must call work.Done.
func (s *scripts) take(agent config.AgentID, id ScriptID, tool Name) (*script, error) {
	const op = "call tool"
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.running[id]
	switch {
	case one == nil || one.of.ID != agent: // the same answer for other agents' scripts
		return nil, fault.Newf(fault.Rejected, op, "", "no script of this agent runs under this id").
			Advise("Call tools from the code of sandbox_execute_code, while it runs.")
	case !slices.Contains(scriptable(), tool):
		return nil, fault.Newf(fault.Rejected, op, quoted(string(tool)), "a script may not call it").Advise("It may call: " + strings.Trim(fmt.Sprint(scriptable()), "[]") + ".")
	case one.calls >= maxScriptCalls:
		return nil, fault.Newf(fault.Rejected, op, "", "the script has made its %d tool calls", maxScriptCalls).
			Advise("Do more in each call (one search instead of many reads), or continue in another script.")
	}
	one.calls++
	one.work.Add(1)
	return one, nil
}

// CallFromScript calls a tool for a script of sandbox_execute_code, with the turn and settings of
// that call. It fails if the script may not call; failures of the tool are in the envelope.
func (r *Registry) CallFromScript(ctx context.Context, agent config.AgentID, id ScriptID, name string, arguments json.RawMessage) (Envelope, error) {
	s, err := r.scripts.take(agent, id, Name(name))
	if err != nil {
		return Envelope{}, err
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })()
	return r.Call(ctx, s.of, name, arguments), nil
}
