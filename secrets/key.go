package secrets

import (
	"cmp"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Key names a secret: whose it is and what it is called.
type Key struct {
	Agent config.AgentID `json:"agent"`
	// Plugin is empty for a secret that is the agent's own.
	Plugin config.PluginID   `json:"plugin,omitempty"`
	Name   config.SecretName `json:"name"`
}

// Host stands in a key for this host itself, which has secrets that no agent may
// read. No agent has this id.
const Host config.AgentID = "00000000-0000-0000-0000-000000000000"

// HostName is what people call it, which is no name that an agent can have.
const HostName = "@host"

// Inference names what this host shows to the endpoint for inference.
func Inference() Key { return Key{Agent: Host, Name: "INFERENCE_API_KEY"} }

// The services that secrets are kept under in the system's stores, as the
// desktop app has them.
const (
	AgentService  = "ai.osaurus.agent-secrets" // agents' own
	PluginService = "ai.osaurus.tools"         // their plugins'
)

// Services lists both.
func Services() []string { return []string{AgentService, PluginService} }

// Check reports a key that names no one secret. The system's stores take an
// empty name for any name: what such a key would delete is not one secret.
func (k Key) Check() error {
	err := CheckAgent(k.Agent)
	if err == nil && k.Plugin != "" {
		_, err = config.ParsePluginID(string(k.Plugin))
	}
	if err == nil {
		_, err = config.ParseSecretName(string(k.Name))
	}
	return err
}

// CheckAgent reports an id that was not made by config.ParseAgentID.
func CheckAgent(agent config.AgentID) error {
	id, err := config.ParseAgentID(string(agent))
	if err == nil && id != agent {
		return fault.Newf(fault.InvalidArgs, "read agent id", string(agent), "not in capitals").Advise("Write it in capitals.")
	}
	return err
}

// Service is what the secret is kept under in the system's stores.
func (k Key) Service() string {
	if k.Plugin == "" {
		return AgentService
	}
	return PluginService
}

// Account is its name there: "UUID.NAME", or "UUID.plugin.NAME".
func (k Key) Account() string {
	if k.Plugin == "" {
		return string(k.Agent) + "." + string(k.Name)
	}
	return string(k.Agent) + "." + string(k.Plugin) + "." + string(k.Name)
}

// KeyOf is the key of an account, if it is one of ours. An agent's id and a
// secret's name have no dots, so only one key has this account.
func KeyOf(service, account string) (Key, bool) {
	agent, rest, _ := strings.Cut(account, ".")
	k := Key{Agent: config.AgentID(agent), Name: config.SecretName(rest)}
	if service == PluginService {
		last := max(strings.LastIndexByte(rest, '.'), 0)
		k.Plugin, k.Name = config.PluginID(rest[:last]), config.SecretName(strings.TrimPrefix(rest[last:], "."))
	}
	return k, k.Check() == nil && k.Service() == service
}

// Of picks the keys of an agent, in the order of Store.List.
func Of(agent config.AgentID, keys []Key) []Key {
	of := []Key{}
	for _, k := range keys {
		if k.Agent == agent {
			of = append(of, k)
		}
	}
	slices.SortFunc(of, Key.Compare)
	return of
}

// Compare says which of two keys comes first: the agent's own before its
// plugins'.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Agent, other.Agent), cmp.Compare(k.Plugin, other.Plugin), cmp.Compare(k.Name, other.Name))
}

// String names the secret for a person.
func (k Key) String() string {
	whose := "agent " + string(k.Agent)
	if k.Agent == Host {
		whose = "this host"
	}
	if k.Plugin == "" {
		return string(k.Name) + " of " + whose
	}
	return string(k.Name) + " of plugin " + string(k.Plugin) + " of " + whose
}
