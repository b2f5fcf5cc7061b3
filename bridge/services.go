package bridge

import (
	"context"
	"encoding/json"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
)

// Caller identifies an agent by its token and Linux user.
type Caller struct {
	Agent config.AgentID
	Name  config.AgentName
	User  config.LinuxUser
	// Plugin is the plugin to which the calling program belongs, as the guest reports it, or a
	// name space that the program chose. A chosen name is never an installed plugin, since any
	// program could claim it. Empty means the agent itself.
	Plugin config.PluginID
}

// Services implement the routes. Their methods may be called from any goroutine; the context ends
// when the caller leaves. Errors are *fault.Error and are shown to the program; they wrap a
// Limited if the same request may succeed later.
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

// HostOnly marks an error with details of this computer. Programs see only its kind; the log has
// the rest.
type HostOnly interface {
	error
	HostOnly()
}

// Secrets returns secrets to programs.
type Secrets interface {
	// Get looks first among the plugin's secrets and then among the agent's own. It fails with
	// NotFound, or with Rejected if the plugin did not declare the name. It records the access
	// first and fails if it cannot.
	Get(ctx context.Context, who Caller, name config.SecretName) (secrets.Value, error)
}

// Config stores plugins' settings, separately for each agent.
type Config interface {
	Get(ctx context.Context, who Caller, key ConfigKey) (string, error) // NotFound
	Set(ctx context.Context, who Caller, key ConfigKey, value string) error
}

// Inference asks models.
type Inference interface {
	// Chat returns the answer. If tell is not nil, it receives each part; an error from tell
	// cancels the chat.
	Chat(ctx context.Context, who Caller, chat Chat, tell func(part string) error) (answer string, err error)
}

// Chat is a question to a model. An empty name or "default" is the model of the settings.
type Chat = wire.Chat

// ChatMessage is one turn of a chat.
type ChatMessage = wire.ChatMessage

// Tasks accepts tasks for agents.
type Tasks interface {
	// Dispatch stores a task before it returns. An agent's tasks with the same session key are one
	// task.
	Dispatch(ctx context.Context, who Caller, text, sessionKey string) (TaskID, error)
}

// TaskID is a task's UUID.
type TaskID string

// Memory stores an agent's facts.
type Memory interface {
	// Query returns the caller's matching facts, best first.
	Query(ctx context.Context, who Caller, text string) ([]Fact, error)
	Store(ctx context.Context, who Caller, content string) error
}

// Fact is one fact in an agent's memory.
type Fact = wire.Fact

// Events publishes events from programs.
type Events interface {
	Emit(ctx context.Context, who Caller, topic Topic, payload json.RawMessage) error
}

// Plugins creates plugins from recipes.
type Plugins interface {
	// Installed reports whether an agent has a plugin or is installing it.
	Installed(agent config.AgentID, plugin config.PluginID) bool
	Create(ctx context.Context, who Caller, recipe json.RawMessage) (Created, error)
}

// Created describes a new plugin.
type Created struct {
	Status string          `json:"status"`
	ID     config.PluginID `json:"plugin_id"`
	Name   string          `json:"plugin_name"`
	Tools  []CreatedTool   `json:"tools"`
	// Warnings say which parts of the recipe were changed or are not enforced.
	Warnings []string `json:"warnings,omitempty"`
}

// CreatedTool is a tool of a new plugin.
type CreatedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Scripts lets running scripts call tools.
type Scripts interface {
	// Call returns the tool's envelope unchanged.
	Call(ctx context.Context, who Caller, script, tool string, arguments json.RawMessage) (envelope json.RawMessage, err error)
}

// Log stores log lines of programs.
type Log interface {
	Append(ctx context.Context, who Caller, level Level, message string) error
}
