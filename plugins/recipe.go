// Package plugins is what a plugin is: a recipe in JSON, read strictly, checked with a place and a remedy for each fault, and written in one canonical form.
package plugins

import (
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
)

// Recipe is a plugin as its author wrote it. One that Parse returned has no
// fault that Validate knows; one that was changed since is to be validated again.
type Recipe struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version,omitempty"` // the author's, kept as it is: the library counts on its own
	Author      string `json:"author,omitempty"`
	Source      string `json:"source,omitempty"`
	// Dependencies are packages of the guest's distribution.
	Dependencies []Dependency `json:"dependencies,omitempty"`
	// Setup is a shell command that runs as the agent once the files are there.
	Setup string `json:"setup,omitempty"`
	// Files are texts by their paths in the plugin's folder.
	Files map[FilePath]string `json:"files,omitempty"`
	Tools []Tool              `json:"tools,omitempty"`
	// Secrets are all that the plugin may read.
	Secrets     []config.SecretName `json:"secrets,omitempty"`
	Permissions Permissions         `json:"permissions,omitzero"`
	Daemon      *Daemon             `json:"daemon,omitempty"`
	Events      Events              `json:"events,omitzero"`
	// Metadata is for what this program knows nothing of: unknown keys of the recipe
	// are in it too. Its values are what JSON holds, with json.Number for numbers.
	Metadata map[string]any `json:"metadata,omitempty"`
	// ModifiedAt is when the library last changed it; no part of its hash.
	ModifiedAt time.Time `json:"modifiedAt,omitzero"`
}

type (
	// Dependency is a package: "python3", "nodejs=20.1", "py3-pip>24".
	Dependency string
	// FilePath is where a file is in the plugin's folder, with slashes:
	// "scripts/run.py". It leads nowhere else.
	FilePath string
	// ToolID is a tool's name in its plugin: "analyze_csv".
	ToolID string
	// ParamName is an argument of a tool: "file".
	ParamName string
	// Seconds is a duration as recipes write it.
	Seconds int
	// Topics are those that an event's type may be of: "rss.new_item", or all that begin
	// so: "rss.*".
	Topics string
)

// Tool is a command that a model can call.
type Tool struct {
	ID          ToolID              `json:"id"`
	Description string              `json:"description"`
	Parameters  map[ParamName]Param `json:"parameters,omitempty"`
	// Run is a shell command. It runs as the agent, in the plugin's folder, with its arguments
	// in the environment: see ParamName.Variable.
	Run string `json:"run"`
	// Timeout is how long it may run; 0 is DefaultTimeout.
	Timeout Seconds `json:"timeout,omitempty"`
	Output  Output  `json:"output,omitempty"`
	Extra   Extra   `json:"+,omitempty"`
}

// Param is an argument.
type Param struct {
	Type        ParamType `json:"type"`
	Description string    `json:"description,omitempty"`
	// Default is handed over when the argument is not given, as a text of its type.
	Default *string `json:"default,omitempty"`
	// Enum, where there is any, has all that it may be.
	Enum []string `json:"enum,omitempty"`
	// Required says whether it must be given. Where the recipe does not say, it must be
	// unless it has a default: see MustBeGiven.
	Required *bool `json:"required,omitempty"`
	Extra    Extra `json:"+,omitempty"`
}

// ParamType is what an argument is. Lists and objects are handed over as JSON.
type ParamType string

// The types of arguments.
const (
	String  ParamType = "string"
	Number  ParamType = "number"
	Integer ParamType = "integer"
	Boolean ParamType = "boolean"
	Array   ParamType = "array"
	Object  ParamType = "object"
)

// Output says what a tool's output is.
type Output string

// The rules for output.
const (
	// Text is handed to the model as stdout, stderr and exit code.
	Text Output = ""
	// JSON is one value on stdout, handed over as such; anything else is a failure of the tool.
	JSON Output = "json"
)

// Permissions are what a plugin asks for. Nothing said is the least that there is.
type Permissions struct {
	Network   Network `json:"network,omitempty"`
	Inference bool    `json:"inference,omitempty"`
	Extra     Extra   `json:"+,omitempty"`
}

// Network is what a plugin may reach: "outbound", "none", domains with commas
// between them ("api.example.com,example.org"), or "" where the recipe does not say.
type Network string

// The networks that are no list.
const (
	NetworkUnsaid   Network = ""
	NetworkNone     Network = "none"
	NetworkOutbound Network = "outbound"
)

// Domain is the exact name of a host: "api.example.com".
type Domain string

// Domains are those of a list; else there are none.
func (n Network) Domains() []Domain {
	switch n {
	case NetworkUnsaid, NetworkNone, NetworkOutbound:
		return nil
	}
	var list []Domain
	for d := range strings.SplitSeq(string(n), ",") {
		list = append(list, Domain(d))
	}
	return list
}

// Daemon is a command that runs for as long as the plugin is there.
type Daemon struct {
	Command string            `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
	Extra   Extra             `json:"+,omitempty"`
}

// Events are what a plugin hears and tells.
type Events struct {
	Subscribe []Subscription `json:"subscribe,omitempty"`
	// Emit has what it may tell. With none it may tell nothing.
	Emit  []Topics `json:"emit,omitempty"`
	Extra Extra    `json:"+,omitempty"`
}

// Subscription is a command that runs for each event of its topics, with the payload on
// its standard input. Without Run nobody hears: a recipe of the desktop app may say so.
type Subscription struct {
	Topic   Topics  `json:"topic,omitempty"`
	Run     string  `json:"run,omitempty"`
	Timeout Seconds `json:"timeout,omitempty"` // 0 is DefaultTimeout
	Extra   Extra   `json:"+,omitempty"`
}

// Extra are keys of a part of a recipe that this program knows nothing of, kept as they are.
type Extra map[string]any

// paramPrefix begins the variables that carry arguments.
const paramPrefix = "PARAM_"

// Variable is the environment variable that carries the argument: PARAM_FILE.
func (p ParamName) Variable() string { return paramPrefix + strings.ToUpper(string(p)) }

// MustBeGiven reports whether a call without the argument is wrong.
func (p Param) MustBeGiven() bool {
	if p.Required != nil {
		return *p.Required
	}
	return p.Default == nil
}

// Limit is how long the tool may run.
func (t Tool) Limit() time.Duration { return limit(t.Timeout) }

// Limit is how long the handler may run for one event.
func (s Subscription) Limit() time.Duration { return limit(s.Timeout) }

func limit(s Seconds) time.Duration {
	if s == 0 {
		return DefaultTimeout
	}
	return time.Duration(s) * time.Second
}

// Holds reports whether an event's type is one of the topics.
func (t Topics) Holds(topic bridge.Topic) bool {
	begin, all := strings.CutSuffix(string(t), "*")
	return string(topic) == begin || all && strings.HasPrefix(string(topic), begin)
}
