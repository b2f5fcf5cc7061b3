// Package wire is what the two ends of the bridge agree on: where it is in the guest, its paths and headers, and the JSON bodies of requests and answers.
package wire

import (
	"encoding/json"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Where the bridge is in a room, and in the guest itself. The shim must start fast, so these are
// copies of the constants in guest/protocol.
const (
	Socket   = "/run/osaurus-bridge.sock"
	TokenDir = "/run/osaurus" // a token is in USER.token in it
)

// Connect is the shim's argument that joins its input and output to what listens on a port of the
// room, without the host. Where nothing listens, the shim exits as fault.NotFound does.
const Connect = "connect"

// The headers that say who asks and for whom.
const (
	HeaderAuthorization = "Authorization"       // "Bearer TOKEN"
	HeaderPlugin        = "X-Osaurus-Plugin"    // the name space, for secrets and config
	HeaderScript        = "X-Osaurus-Script-Id" // the script that calls a tool
)

// MaxBody is how large the body of a request may be, as the reference has it:
// recipes carry the texts of their files.
const MaxBody = 8 << 20

// The paths. Those that end in a slash go on with a name, percent-encoded.
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

// Value is a secret, or what a plugin keeps under a key.
type Value struct {
	Value string `json:"value"`
}

// Chat asks a model.
type Chat struct {
	Model    string        `json:"model,omitempty"` // empty: the one in the settings
	Messages []ChatMessage `json:"messages"`
	// Stream asks for the answer in parts, as server-sent events: each one's data
	// is an Answer with the next part or a Failure, the last one's is Done.
	Stream bool `json:"stream,omitempty"`
}

// ChatMessage is one turn of a chat.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Answer is what a model said, or a part of it.
type Answer struct {
	Content string `json:"content"`
}

// Done is the data of the last event of a stream.
const Done = "[DONE]"

// Dispatch hands a task to whoever serves the agent.
type Dispatch struct {
	Task string `json:"task"`
	// AgentID may name the caller's own agent, and no other.
	AgentID string `json:"agent_id,omitempty"`
	// ExternalSessionKey makes two tasks with the same key one.
	ExternalSessionKey string `json:"external_session_key,omitempty"`
}

// Dispatched names the task.
type Dispatched struct {
	TaskID string `json:"task_id"`
}

// Query looks for facts.
type Query struct {
	Query string `json:"query"`
}

// Results are the facts that were found, the best first.
type Results struct {
	Results []Fact `json:"results"`
}

// Fact is something that an agent keeps in mind.
type Fact struct {
	Content   string    `json:"content"`
	Salience  float64   `json:"salience"`
	CreatedAt time.Time `json:"created_at"`
}

// Store keeps a fact.
type Store struct {
	Content string `json:"content"`
}

// Emit tells an event.
type Emit struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"` // any JSON; {} if absent
}

// Line is a line of the log.
type Line struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}

// Failure is the body of every answer that is not a success.
type Failure struct {
	Error  string     `json:"error"`
	Kind   fault.Kind `json:"kind,omitempty"`
	Advice string     `json:"advice,omitempty"`
}
