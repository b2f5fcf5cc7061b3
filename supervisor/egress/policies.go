// Package egress gives the network gateway the policies of agents, asks people about flows, and records flows.
package egress

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// RulesKey is the agents' setting with their rules. With "+" or "-" it adds and removes single ones.
const RulesKey = "network.rules"

const (
	// maxSession bounds the session's rules of a subject. More replace the oldest.
	maxSession = 100
	// localEvery is how often this computer's networks are read: a laptop changes them.
	localEvery = 5 * time.Second
)

// Agents are the agents of a home: *agents.Agents.
type Agents interface {
	Get(ref string) (agents.Agent, error)
	List() []agents.Agent
	Changed() <-chan struct{}
	Set(ctx context.Context, ref string, texts map[string]string, by machine.Cause) ([]string, error)
}

// PolicyOptions configure Policies.
type PolicyOptions struct {
	Agents Agents
	// Home returns the home's settings.
	Home func() config.Settings
	// Hosts returns the hosts that an installed plugin may reach, as its recipe declares them,
	// or nil for all that its agent reaches. It must be fast.
	Hosts func(config.AgentID, config.PluginID) []string
	// Local returns the networks that this computer is on. It is called now and then.
	Local func() []netip.Prefix
}

// Policies builds the policies of subjects from settings, plugins' recipes and people's answers.
// Its methods may be called from any goroutine.
type Policies struct {
	PolicyOptions

	mu        sync.Mutex
	sessions  map[network.Subject][]config.NetworkRule
	local     []netip.Prefix
	looked    time.Time // when local was read
	refreshed notify.Notifier
}

// NewPolicies returns the policies of a home.
func NewPolicies(o PolicyOptions) *Policies {
	return &Policies{PolicyOptions: o, sessions: map[network.Subject][]config.NetworkRule{}}
}

// Of returns the policy of a subject. The guest's root has mode open and the rules of all agents. An
// unknown agent reaches nothing.
func (p *Policies) Of(s network.Subject) policy.Policy {
	settings, ok := p.settings(s.Agent)
	if !ok {
		return policy.Policy{}
	}
	answer := policy.Of(p.Home(), settings)
	if s.Plugin != "" {
		answer.Hosts = p.Hosts(s.Agent, s.Plugin)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	answer.Local = p.networks()
	answer.Rules = append(answer.Rules, p.sessions[s]...)
	return answer
}

// Limits returns the limits of an agent's traffic.
func (p *Policies) Limits(agent config.AgentID) network.Limits {
	const megabyte = 1 << 20
	settings, _ := p.settings(agent)
	return network.Limits{
		BytesPerSecond: int64(settings.Limits.NetworkMBps) * megabyte, BytesPerDay: int64(settings.Limits.NetworkMBPerDay) * megabyte,
	}
}

// settings returns an agent's settings, or false if there is no such agent. The guest's root has the defaults.
func (p *Policies) settings(agent config.AgentID) (config.AgentSettings, bool) {
	if agent == "" {
		return config.AgentDefaults(), true
	}
	found, err := p.Agents.Get(string(agent))
	return found.Settings, err == nil
}

// networks returns the networks that this computer is on. The caller holds mu.
func (p *Policies) networks() []netip.Prefix {
	if p.Local != nil && time.Since(p.looked) > localEvery {
		p.local, p.looked = p.Local(), time.Now()
	}
	return p.local
}

// allowSession adds a rule to a subject's policy until EndSession.
func (p *Policies) allowSession(s network.Subject, r config.NetworkRule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rules := append(slices.Clip(p.sessions[s]), r)
	p.sessions[s] = rules[max(0, len(rules)-maxSession):]
}

// EndSession drops the answers that were given for an agent's session. Call it when the agent is
// deleted; otherwise they hold until the daemon ends.
func (p *Policies) EndSession(agent config.AgentID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		if s.Agent == agent {
			delete(p.sessions, s)
		}
	}
	p.refreshed.Notify()
}

// Refresh makes Watch recheck all agents. Call it when the home's rules have changed.
func (p *Policies) Refresh() { p.refreshed.Notify() }

// Watch calls recheck for every agent, and for the guest's root without an id, now and after each
// change of agents or of the home's rules, until the context ends.
func (p *Policies) Watch(ctx context.Context, recheck func(config.AgentID)) {
	for {
		changed, refreshed := p.Agents.Changed(), p.refreshed.Next()
		recheck("")
		for _, a := range p.Agents.List() {
			recheck(a.ID)
		}
		select {
		case <-changed:
		case <-refreshed:
		case <-ctx.Done():
			return
		}
	}
}
