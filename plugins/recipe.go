// Package plugins parses, validates and encodes plugins' recipes. Each fault has a place and advice.
package plugins

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
)

// Recipe describes a plugin. Parse returns only valid recipes; after a change, call Validate again.
type Recipe struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version,omitempty"` // the author's; the library numbers revisions itself
	Author      string `json:"author,omitempty"`
	Source      string `json:"source,omitempty"`
	// Dependencies are packages of the guest's distribution.
	Dependencies []Dependency `json:"dependencies,omitempty"`
	// Setup is a shell command that runs as the agent when the files are written.
	Setup string `json:"setup,omitempty"`
	// Files maps paths in the plugin's folder to texts.
	Files map[FilePath]string `json:"files,omitempty"`
	Tools []Tool              `json:"tools,omitempty"`
	// Secrets are the names of all secrets that the plugin may read.
	Secrets     []config.SecretName `json:"secrets,omitempty"`
	Permissions Permissions         `json:"permissions,omitzero"`
	Daemon      *Daemon             `json:"daemon,omitempty"`
	Events      Events              `json:"events,omitzero"`
	// Metadata is not interpreted. It includes unknown keys of the recipe, and those of its parts under their paths.
	// Numbers are json.Number.
	Metadata map[string]any `json:"metadata,omitempty"`
	// ModifiedAt is when the library last changed it. It is not part of the hash.
	ModifiedAt time.Time `json:"modifiedAt,omitzero"`
}

type (
	// Dependency is a package: "python3", "nodejs=20.1", "py3-pip>24".
	Dependency string
	// FilePath is a slash-separated path within the plugin's folder: "scripts/run.py".
	FilePath string
	// ToolID is a tool's name in its plugin: "analyze_csv".
	ToolID string
	// ParamName is an argument of a tool: "file".
	ParamName string
	// Seconds is a duration as recipes write it.
	Seconds int
)

// Tool is a command that a model can call.
type Tool struct {
	ID          ToolID              `json:"id"`
	Description string              `json:"description"`
	Parameters  map[ParamName]Param `json:"parameters,omitempty"`
	// Run is a shell command. It runs as the agent in the plugin's folder. Its arguments are
	// environment variables: see ParamName.Variable.
	Run string `json:"run"`
	// Timeout is how long it may run; 0 is DefaultTimeout.
	Timeout Seconds `json:"timeout,omitempty"`
	Output  Output  `json:"output,omitempty"`
}

// Param is an argument.
type Param struct {
	Type        ParamType `json:"type"`
	Description string    `json:"description,omitempty"`
	// Default is the value of an omitted argument, as text.
	Default *Literal `json:"default,omitempty"`
	// Enum, if not empty, lists the allowed values.
	Enum []Literal `json:"enum,omitempty"`
	// Required says whether the argument is required. If nil, it is unless it has a default.
	Required *bool `json:"required,omitempty"`
}

// ParamType is the type of an argument. Lists and objects are passed as JSON.
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

// Output is the format of a tool's output.
type Output string

// The output formats.
const (
	// Text gives the model stdout, stderr and exit code.
	Text Output = ""
	// JSON gives the model the JSON value on stdout. Other output is an error.
	JSON Output = "json"
)

// Permissions are the permissions that a plugin asks for. The zero value grants none.
type Permissions struct {
	Network   Network `json:"network,omitempty"`
	Inference bool    `json:"inference,omitempty"`
}

// Network is what a plugin may reach: "outbound", "none", "" if not specified, or a
// comma-separated list of domains.
type Network string

// The networks that are not lists.
const (
	NetworkUnsaid   Network = ""
	NetworkNone     Network = "none"
	NetworkOutbound Network = "outbound"
)

// Domains returns the hosts of a list, such as "api.example.com", or nil.
func (n Network) Domains() []string {
	switch n {
	case NetworkUnsaid, NetworkNone, NetworkOutbound:
		return nil
	}
	return strings.Split(string(n), ",")
}

// Daemon is a command that runs as long as the plugin is installed.
type Daemon struct {
	Command string            `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
}

// Events lists what a plugin receives and emits.
type Events struct {
	Subscribe []Subscription `json:"subscribe,omitempty"`
	// Emit lists the topics that it may emit.
	Emit []bridge.Topics `json:"emit,omitempty"`
}

// Subscription is a command that runs for each event of its topics, with the payload on standard
// input. Recipes of the desktop app may have none, which does nothing.
type Subscription struct {
	Topic   bridge.Topics `json:"topic,omitempty"`
	Run     string        `json:"run,omitempty"`
	Timeout Seconds       `json:"timeout,omitempty"` // 0 is DefaultTimeout
}

// Literal is a text, number or boolean as text: "words", "10", "true".
type Literal string

// UnmarshalJSON accepts all three.
func (l *Literal) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		*l = Literal(s)
		return nil
	}
	if text[0] == '{' || text[0] == '[' {
		return typeFault("$.tools", "an object or a list in a default or enum", "a text, a number, true or false")
	}
	*l = Literal(text)
	return nil
}

// UnmarshalJSON accepts a text or a list of hosts, and normalizes it: lower case, no spaces, each
// host once.
func (n *Network) UnmarshalJSON(text []byte) error {
	var hosts []string
	if json.Unmarshal(text, &hosts) != nil {
		var list string
		if json.Unmarshal(text, &list) != nil {
			return typeFault("$.permissions.network", "something else", "a text in quotes, or a list of hosts")
		}
		hosts = strings.Split(list, ",")
	}
	var unique []string
	for _, host := range hosts {
		if host = strings.ToLower(strings.TrimSpace(host)); host != "" && !slices.Contains(unique, host) {
			unique = append(unique, host)
		}
	}
	*n = Network(strings.Join(unique, ","))
	return nil
}

// UnmarshalJSON accepts an object, or only a topic.
func (s *Subscription) UnmarshalJSON(text []byte) error {
	*s = Subscription{}
	if json.Unmarshal(text, &s.Topic) == nil {
		return nil
	}
	type plain Subscription
	if err := unmarshal(text, (*plain)(s)); err != nil {
		return typeFault("$.events.subscribe", err.Error(), "texts and objects with topic, run and timeout")
	}
	return nil
}

// MarshalJSON writes only the topic if there is nothing else.
func (s Subscription) MarshalJSON() ([]byte, error) {
	if s.Topic != "" && s.Run == "" && s.Timeout == 0 {
		return json.Marshal(s.Topic)
	}
	type plain Subscription
	return json.Marshal(plain(s))
}

// IsZero reports whether there are no events.
func (e Events) IsZero() bool { return len(e.Subscribe)+len(e.Emit) == 0 }

// maxDomain is the limit of DNS.
const maxDomain = 253

var domainText = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// IsDomain reports whether a text is the exact name of a host with at least two labels: no address,
// no wildcard.
func IsDomain(text string) bool { return len(text) <= maxDomain && domainText.MatchString(text) }

// CommandNetwork returns the network of the plugin's tools, daemon and handlers. Those with a list of
// domains have one of their own, from which the gateway lets only these be reached.
func (p Permissions) CommandNetwork() engine.PluginNetwork {
	switch {
	case p.Network == NetworkOutbound:
		return engine.NetworkOfRoom
	case len(p.Network.Domains()) > 0:
		return engine.NetworkOfPlugin
	}
	return engine.NoNetwork
}

// Caveats returns sentences about permissions that are not enforced as written. They are shown
// when the plugin is installed.
func (r Recipe) Caveats() (list []string) {
	if strings.TrimSpace(r.Setup) != "" && r.Permissions.Network != NetworkOutbound {
		list = append(list, "Its setup has the network of the agent's room, not only what it declares.")
	}
	return list
}

// May reports whether the plugin may emit a topic.
func (e Events) May(topic bridge.Topic) bool {
	return slices.ContainsFunc(e.Emit, func(t bridge.Topics) bool { return t.Holds(topic) })
}

// paramPrefix is the prefix of the variables that hold arguments.
const paramPrefix = "PARAM_"

// Variable returns the environment variable that holds the argument: PARAM_FILE.
func (p ParamName) Variable() string { return paramPrefix + strings.ToUpper(string(p)) }

// Command is a shell command of a recipe.
type Command struct {
	Path string // of the command in the recipe's JSON
	Text string
	// Params are the arguments that it finds in its environment.
	Params []ParamName
}

// Commands returns the shell commands of a recipe, setup first.
func (r Recipe) Commands() []Command {
	list := []Command{{Path: setupPath, Text: r.Setup}}
	if r.Daemon != nil {
		list = append(list, Command{Path: "$.daemon.command", Text: r.Daemon.Command})
	}
	for i, s := range r.Events.Subscribe {
		list = append(list, Command{Path: item("$.events.subscribe", i) + ".run", Text: s.Run})
	}
	for i, t := range r.Tools {
		list = append(list, Command{Path: item("$.tools", i) + ".run", Text: t.Run, Params: sortedKeys(t.Parameters)})
	}
	return slices.DeleteFunc(list, func(c Command) bool { return c.Text == "" })
}

const setupPath = "$.setup"

// MustBeGiven reports whether the argument is required.
func (p Param) MustBeGiven() bool {
	if p.Required != nil {
		return *p.Required
	}
	return p.Default == nil
}

// Limit returns how long the tool may run.
func (t Tool) Limit() time.Duration { return limit(t.Timeout) }

// Limit returns how long the handler may run for one event.
func (s Subscription) Limit() time.Duration { return limit(s.Timeout) }

func limit(s Seconds) time.Duration {
	if s == 0 {
		return DefaultTimeout
	}
	return time.Duration(s) * time.Second
}
