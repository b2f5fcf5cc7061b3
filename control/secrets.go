package control

import (
	"context"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/prompts"
)

// secretsLimit is how long a store may take to delete the secrets of a deleted agent. It may ask a
// person to unlock it, who has two minutes.
const secretsLimit = 3 * time.Minute

// secretService implements the service Secrets.
type secretService struct{ service }

// secretKey parses the key of a secret. The name is empty for a deleted agent.
func (s secretService) secretKey(ref, plugin, name string) (k secrets.Key, of config.AgentName, err error) {
	if k.Agent, of, err = s.owner(ref); err != nil {
		return k, of, err
	}
	if k.Name, err = config.ParseSecretName(name); err != nil {
		return k, of, err
	}
	k.Plugin, err = optional(plugin, config.ParsePluginID)
	return k, of, err
}

// owner returns the owner of secrets. An id may be that of a deleted agent.
func (s secretService) owner(ref string) (config.AgentID, config.AgentName, error) {
	if ref == secrets.HostName {
		return secrets.Host, "", nil
	}
	agent, err := s.Agents.Get(ref)
	if err == nil {
		return agent.ID, agent.Name, nil
	}
	if id, notID := config.ParseAgentID(ref); notID == nil {
		return id, "", nil
	}
	return "", "", err
}

// agentID returns an agent's id, empty for all agents.
func (s service) agentID(ref string) (config.AgentID, error) {
	if ref == "" {
		return "", nil
	}
	agent, err := s.Agents.Get(ref)
	return agent.ID, err
}

func keyProto(k secrets.Key) *controlpb.SecretKey {
	return &controlpb.SecretKey{Agent: string(k.Agent), Plugin: string(k.Plugin), Name: string(k.Name)}
}

// bindingOf parses the binding of a secret whose agent has a network.
func (s secretService) bindingOf(k secrets.Key, b *controlpb.SecretBinding) (secrets.Binding, error) {
	to, err := secrets.Binding{Hosts: b.Hosts, In: b.In, Key: b.Key, Require: b.Require}.Parse()
	if err != nil || k.Agent == secrets.Host {
		return to, err
	}
	agent, err := s.Agents.Get(string(k.Agent))
	if err == nil && agent.Settings.Network == config.NetworkClosed {
		err = fault.Newf(fault.Rejected, "bind secret", string(k.Name), "the agent %s has no network", agent.Name).
			Advise("Give it one: osaurus-sandbox agent set " + string(agent.Name) + " network=allow")
	}
	return to, err
}

// Set stores a secret.
func (s secretService) Set(ctx context.Context, r *controlpb.SetSecretRequest) (*controlpb.SetSecretResponse, error) {
	k, of, err := s.secretKey(r.Agent, r.Plugin, r.Name)
	if err != nil {
		return nil, err
	}
	value, err := secrets.ParseValue(r.Value)
	if err != nil {
		return nil, err
	}
	store, what := func() error { return s.Vault.Set(ctx, k, value) }, k.String()
	if r.Binding != nil {
		to, err := s.bindingOf(k, r.Binding)
		if err != nil {
			return nil, err
		}
		store, what = func() error { return s.Vault.Bind(ctx, k, value, to) }, what+" for "+to.String()
	}
	err = s.audited(ctx, note{action: "secret.set", subject: what, agent: of, strict: true}, store)
	return &controlpb.SetSecretResponse{Key: keyProto(k)}, err
}

// Ask asks a person for a secret.
func (s secretService) Ask(ctx context.Context, r *controlpb.AskSecretRequest) (*controlpb.AskSecretResponse, error) {
	k, of, err := s.secretKey(r.Agent, r.Plugin, r.Name)
	if err != nil {
		return nil, err
	}
	q := prompts.Question{Secret: k, Name: of, Text: s.secretsOf(ctx, of).Scrubber().Text(r.Text), Wait: r.Timeout.AsDuration()}
	err = s.audited(ctx, note{action: "secret.ask", subject: k.String(), agent: of}, func() error {
		_, err := s.Prompts.Ask(ctx, q, callerOf(ctx).cause())
		return err
	})
	return &controlpb.AskSecretResponse{Key: keyProto(k)}, err
}

// List lists the keys of an agent's secrets.
func (s secretService) List(ctx context.Context, r *controlpb.ListSecretsRequest) (*controlpb.ListSecretsResponse, error) {
	agent, _, err := s.owner(r.Agent)
	if err != nil {
		return nil, err
	}
	keys, err := s.Vault.List(ctx, agent)
	list := protos(keys, keyProto)
	for i, k := range keys {
		if to, bound := s.Vault.Binding(k); bound {
			list[i].Binding = &controlpb.SecretBinding{Hosts: to.Hosts, In: to.In, Key: to.Key, Require: to.Require}
		}
	}
	return &controlpb.ListSecretsResponse{Keys: list}, err
}

// Delete deletes a secret.
func (s secretService) Delete(ctx context.Context, r *controlpb.DeleteSecretRequest) (*controlpb.DeleteSecretResponse, error) {
	k, of, err := s.secretKey(r.Agent, r.Plugin, r.Name)
	if err != nil {
		return nil, err
	}
	err = s.audited(ctx, note{action: "secret.delete", subject: k.String(), agent: of, strict: true}, func() error { return s.Vault.Delete(ctx, k) })
	return &controlpb.DeleteSecretResponse{Key: keyProto(k)}, err
}

// lend returns secrets of an agent for the environment of a command.
func (s service) lend(ctx context.Context, a agents.Agent, texts []string) ([]string, error) {
	names, err := parseAll(texts, config.ParseSecretName)
	if err != nil {
		return nil, err
	}
	return s.Vault.Lend(ctx, bridge.Caller{Agent: a.ID, Name: a.Name, User: a.User}, names, callerOf(ctx).client)
}
