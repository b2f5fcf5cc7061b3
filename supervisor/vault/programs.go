package vault

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Cleaned wraps the services that keep or pass on texts of programs, so that they get
// them without the agents' secrets: logs, events, tasks and memory. What plugins store
// for themselves, and what models are told, stays as it is.
func (v *Vault) Cleaned(s bridge.Services) bridge.Services {
	s.Log, s.Events, s.Tasks, s.Memory = cleanLog{v, s.Log}, cleanEvents{v, s.Events}, cleanTasks{v, s.Tasks}, cleanMemory{v, s.Memory}
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

// Emit redacts the payload. If the result is not JSON, because the secret was not within a
// string, it sends the whole payload as a string. A topic cannot be redacted.
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
