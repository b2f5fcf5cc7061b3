package secrets

import (
	"cmp"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Key identifies a secret by its owner and name.
type Key struct {
	Agent config.AgentID `json:"agent"`
	// Plugin is empty for the agent's own secrets.
	Plugin config.PluginID   `json:"plugin,omitempty"`
	Name   config.SecretName `json:"name"`
}

// Host is the agent id for secrets of this host, which no agent may read.
const Host config.AgentID = "00000000-0000-0000-0000-000000000000"

// HostName is the name of Host in the CLI. No agent can have it.
const HostName = "@host"

// Inference returns the key of the API key for the inference endpoint.
func Inference() Key { return Key{Agent: Host, Name: "INFERENCE_API_KEY"} }

// Authority returns the key of the private key of the gateway's certificate authority.
func Authority() Key { return Key{Agent: Host, Name: "GATEWAY_AUTHORITY_KEY"} }

// Services under which the system's stores keep secrets. The desktop app uses the
// same ones.
const (
	AgentService  = "ai.osaurus.agent-secrets" // agents' own
	PluginService = "ai.osaurus.tools"         // their plugins'
)

// Check returns an error for an incomplete key. The system's stores treat an
// empty name as a wildcard, so such a key could delete many secrets.
func (k Key) Check() error {
	err := checkAgent(k.Agent)
	if err == nil && k.Plugin != "" {
		_, err = config.ParsePluginID(string(k.Plugin))
	}
	if err == nil {
		_, err = config.ParseSecretName(string(k.Name))
	}
	return err
}

// checkAgent returns an error for an id that config.ParseAgentID would not return.
func checkAgent(agent config.AgentID) error {
	id, err := config.ParseAgentID(string(agent))
	if err == nil && id != agent {
		return fault.Newf(fault.InvalidArgs, "read agent id", string(agent), "agent ids are written in capitals").Advise("Use " + string(id) + ".")
	}
	return err
}

// Service returns the secret's service in the system's stores.
func (k Key) Service() string {
	if k.Plugin == "" {
		return AgentService
	}
	return PluginService
}

// Account returns the secret's account name there: "UUID.NAME" or "UUID.plugin.NAME".
func (k Key) Account() string {
	if k.Plugin == "" {
		return string(k.Agent) + "." + string(k.Name)
	}
	return string(k.Agent) + "." + string(k.Plugin) + "." + string(k.Name)
}

// KeyOf parses an account and reports whether it belongs to this program. Agent ids and secret
// names contain no dots, so each account has one key.
func KeyOf(service, account string) (Key, bool) {
	agent, rest, _ := strings.Cut(account, ".")
	k := Key{Agent: config.AgentID(agent), Name: config.SecretName(rest)}
	if service == PluginService {
		last := max(strings.LastIndexByte(rest, '.'), 0)
		k.Plugin, k.Name = config.PluginID(rest[:last]), config.SecretName(strings.TrimPrefix(rest[last:], "."))
	}
	return k, k.Check() == nil && k.Service() == service
}

// Compare orders keys by agent, plugin and name. An agent's own secrets come
// before its plugins'.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Agent, other.Agent), cmp.Compare(k.Plugin, other.Plugin), cmp.Compare(k.Name, other.Name))
}

// String describes the secret for messages.
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
