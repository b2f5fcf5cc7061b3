package vault

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Cleaned are services that keep and pass on what programs tell without their
// agents' secrets: lines of logs, events, tasks, and what is to be remembered. What
// plugins keep for themselves, and what is said to a model, stays as it is.
func (v *Vault) Cleaned(s bridge.Services) bridge.Services {
	if s.Log != nil {
		s.Log = cleanLog{v, s.Log}
	}
	if s.Events != nil {
		s.Events = cleanEvents{v, s.Events}
	}
	if s.Tasks != nil {
		s.Tasks = cleanTasks{v, s.Tasks}
	}
	if s.Memory != nil {
		s.Memory = cleanMemory{v, s.Memory}
	}
	return s
}

func (v *Vault) clean(ctx context.Context, agent config.AgentID, text string) string {
	return v.Redact(ctx, agent).Scrubber().Text(text)
}

type cleanLog struct {
	vault *Vault
	bridge.Log
}

func (c cleanLog) Append(ctx context.Context, who bridge.Caller, level bridge.Level, message string) error {
	return c.Log.Append(ctx, who, level, c.vault.clean(ctx, who.Agent, message))
}

type cleanEvents struct {
	vault *Vault
	bridge.Events
}

// Emit passes on JSON. Where a label does not stand in a string (the secret was a
// number, or went over more than one value), all of it becomes one.
// What an event is called cannot have a label in it.
func (c cleanEvents) Emit(ctx context.Context, who bridge.Caller, topic bridge.Topic, payload json.RawMessage) error {
	if c.vault.clean(ctx, who.Agent, string(topic)) != string(topic) {
		return fault.Newf(fault.InvalidArgs, "emit event", "", "its type has the value of a secret in it").Advise("Call it something else.")
	}
	if clean := json.RawMessage(c.vault.clean(ctx, who.Agent, string(payload))); len(payload) == 0 || json.Valid(clean) {
		payload = clean
	} else {
		text, err := json.Marshal(string(clean))
		if err != nil {
			return err
		}
		payload = text
	}
	return c.Events.Emit(ctx, who, topic, payload)
}

type cleanTasks struct {
	vault *Vault
	bridge.Tasks
}

func (c cleanTasks) Dispatch(ctx context.Context, who bridge.Caller, text, sessionKey string) (bridge.TaskID, error) {
	clean := c.vault.Redact(ctx, who.Agent).Scrubber()
	return c.Tasks.Dispatch(ctx, who, clean.Text(text), clean.Text(sessionKey))
}

type cleanMemory struct {
	vault *Vault
	bridge.Memory
}

func (c cleanMemory) Store(ctx context.Context, who bridge.Caller, content string) error {
	return c.Memory.Store(ctx, who, c.vault.clean(ctx, who.Agent, content))
}
