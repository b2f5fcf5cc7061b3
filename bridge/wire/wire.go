// Package wire defines the bridge's socket in the guest, paths, headers and JSON bodies.
package wire

import (
	"encoding/json"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Paths of the bridge in rooms and in the guest. The shim must start fast, so these are copies of
// the constants in guest/protocol.
const (
	Socket   = "/run/osaurus-bridge.sock"
	TokenDir = "/run/osaurus" // has the token in USER.token
)

// Headers that identify the caller.
const (
	HeaderAuthorization = "Authorization"       // "Bearer TOKEN"
	HeaderPlugin        = "X-Osaurus-Plugin"    // name space for secrets and config
	HeaderScript        = "X-Osaurus-Script-Id" // the script that calls a tool
)

// MaxBody bounds the body of a request. Recipes contain the text of their files.
const MaxBody = 8 << 20

// The paths. Those with a trailing slash are followed by a percent-encoded name.
const (
	PathSecrets     = "/api/secrets/"
	PathConfig      = "/api/config/"
	PathChat        = "/api/inference/chat"
	PathDispatch    = "/api/agent/dispatch"
	PathMemoryQuery = "/api/agent/memory/query"
	PathMemoryStore = "/api/agent/memory/store"
	PathEmit        = "/api/events/emit"
	PathPlugin      = "/api/plugin/create"
	PathLog         = "/api/log"
	PathTool        = "/api/sandbox-tool/"
)

// Value is a secret or a plugin's setting.
type Value struct {
	Value string `json:"value"`
}

// Chat is a question to a model.
type Chat struct {
	Model    string        `json:"model,omitempty"` // empty: the model of the settings
	Messages []ChatMessage `json:"messages"`
	// Stream asks for an answer of server-sent events. The data of each is an Answer with the next
	// part, or a Failure; the last one's is Done.
	Stream bool `json:"stream,omitempty"`
}

// ChatMessage is one turn of a chat.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Answer is a model's answer or a part of it.
type Answer struct {
	Content string `json:"content"`
}

// Done is the data of the last event of a stream.
const Done = "[DONE]"

// Dispatch is a task for the agent.
type Dispatch struct {
	Task string `json:"task"`
	// AgentID, if set, must be the caller's own agent.
	AgentID string `json:"agent_id,omitempty"`
	// ExternalSessionKey makes tasks with the same key one task.
	ExternalSessionKey string `json:"external_session_key,omitempty"`
}

// Dispatched has the task's id.
type Dispatched struct {
	TaskID string `json:"task_id"`
}

// Query searches the memory.
type Query struct {
	Query string `json:"query"`
}

// Results are the matching facts, best first.
type Results struct {
	Results []Fact `json:"results"`
}

// Fact is one fact in an agent's memory.
type Fact struct {
	Content   string    `json:"content"`
	Salience  float64   `json:"salience"`
	CreatedAt time.Time `json:"created_at"`
}

// Store adds a fact to the memory.
type Store struct {
	Content string `json:"content"`
}

// Emit publishes an event.
type Emit struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"` // any JSON; {} if absent
}

// Line is a line of the log.
type Line struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}

// Failure is the body of every unsuccessful answer.
type Failure struct {
	Error  string     `json:"error"`
	Kind   fault.Kind `json:"kind,omitempty"`
	Advice string     `json:"advice,omitempty"`
}
