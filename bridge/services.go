package bridge

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
)

// Caller is who asks: an agent, known by its token and its Linux user.
type Caller struct {
	Agent config.AgentID
	Name  config.AgentName
	User  config.LinuxUser
	// Plugin is the plugin of the agent whose program asks, by the guest's word; or the
	// name space that a program says it works in, which is no plugin that the agent has: of those
	// any program can say any. Empty is the agent's own.
	Plugin config.PluginID
}

// Services are what the routes stand for. Their methods may be called from any
// goroutine; the context ends when the caller has left. Their errors are
// *fault.Error, with a Limited in them where the same may be asked again later;
// what they say is told to the program. One that is nil is not there: its
// routes answer 503.
type Services struct {
	Secrets   Secrets
	Config    Config
	Inference Inference
	Tasks     Tasks
	Memory    Memory
	Events    Events
	Plugins   Plugins
	Scripts   Scripts
	Log       Log
}

// HostOnly is a cause of errors that no program is told of: what is wrong with this
// computer, and where. A program is told the error's kind; the log has the rest.
type HostOnly interface {
	error
	HostOnly()
}

// Secrets tells secrets.
type Secrets interface {
	// Get looks in the plugin's secrets first and then in the agent's own. It
	// fails with NotFound, and with Rejected if the plugin did not declare the name.
	// It records who asked, and tells nothing where it cannot.
	Get(ctx context.Context, who Caller, name config.SecretName) (secrets.Value, error)
}

// Config keeps what plugins remember of themselves, apart for each agent.
type Config interface {
	Get(ctx context.Context, who Caller, key ConfigKey) (string, error) // NotFound
	Set(ctx context.Context, who Caller, key ConfigKey, value string) error
}

// Inference answers chats.
type Inference interface {
	// Chat returns the answer. With tell, its parts are told as they come; an error of
	// tell ends it.
	Chat(ctx context.Context, who Caller, chat Chat, tell func(part string) error) (answer string, err error)
}

// Chat is what is asked of a model.
type Chat struct {
	Model    string // empty or "default": the one in the settings
	Messages []ChatMessage
}

// ChatMessage is one turn of a chat.
type ChatMessage = wire.ChatMessage

// Tasks takes work for whoever serves the agent.
type Tasks interface {
	// Dispatch keeps a task before it returns. Two with the same session key of
	// one agent are one task.
	Dispatch(ctx context.Context, who Caller, text, sessionKey string) (TaskID, error)
}

// TaskID is a task's UUID.
type TaskID string

// Memory is what an agent keeps in mind.
type Memory interface {
	// Query finds the caller's own facts, the best first.
	Query(ctx context.Context, who Caller, text string) ([]Fact, error)
	Store(ctx context.Context, who Caller, content string) error
}

// Fact is something an agent keeps in mind.
type Fact = wire.Fact

// Events spreads what programs have to tell.
type Events interface {
	Emit(ctx context.Context, who Caller, topic Topic, payload json.RawMessage) error
}

// Plugins makes plugins of recipes.
type Plugins interface {
	// Installed reports whether an agent has a plugin, or it is being made.
	Installed(agent config.AgentID, plugin config.PluginID) bool
	Create(ctx context.Context, who Caller, recipe json.RawMessage) (Created, error)
}

// Created is a plugin that was made.
type Created struct {
	Status string          `json:"status"`
	ID     config.PluginID `json:"plugin_id"`
	Name   string          `json:"plugin_name"`
	Tools  []CreatedTool   `json:"tools"`
	// Warnings say what of the recipe was changed or is not enforced.
	Warnings []string `json:"warnings,omitempty"`
}

// CreatedTool is a tool of a plugin that was made.
type CreatedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Scripts lets a script that a tool runs call tools itself.
type Scripts interface {
	// Call returns the tool's envelope as it is.
	Call(ctx context.Context, who Caller, script, tool string, arguments json.RawMessage) (envelope json.RawMessage, err error)
}

// Log takes lines of programs.
type Log interface {
	Append(ctx context.Context, who Caller, level Level, message string) error
}
