package egress_test

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/egress"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/prompts"
)

const (
	alice = config.AgentID("0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	bob   = config.AgentID("1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
)

// rig is a home with agents in memory, and all of egress.
type rig struct {
	t testing.TB
	*egress.Policies
	asker  *egress.Asker
	broker *prompts.Broker
	flows  *egress.Flows

	mu      sync.Mutex
	agents  map[config.AgentID]agents.Agent
	home    config.Settings
	hosts   map[config.PluginID][]string
	full    error // of Set
	events  []events.Event
	entries []audit.Entry
	changed notify.Notifier
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, home: config.Defaults(), agents: map[config.AgentID]agents.Agent{}, hosts: map[config.PluginID][]string{}}
	r.create(alice, "alice")
	r.create(bob, "bob")
	r.broker = prompts.New(prompts.Options{Record: r})
	r.Policies = egress.NewPolicies(egress.PolicyOptions{Agents: r, Home: r.settings, Hosts: r.hostsOf})
	r.asker = egress.NewAsker(egress.AskOptions{Policies: r.Policies, Prompts: r.broker})
	r.flows = egress.NewFlows(egress.FlowOptions{Name: r.nameOf, Events: r, Audit: recorder{r}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		r.asker.Close()
		r.broker.Close()
		r.flows.Close()
	})
	return r
}

func (r *rig) create(id config.AgentID, name config.AgentName) {
	r.agents[id] = agents.Agent{ID: id, Name: name, Settings: config.AgentDefaults()}
}

func (r *rig) delete(id config.AgentID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, id)
	r.changed.Notify()
}

func (r *rig) settings() config.Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.home
}

func (r *rig) hostsOf(_ config.AgentID, plugin config.PluginID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[plugin]
}

func (r *rig) nameOf(id config.AgentID) (config.AgentName, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.agents[id]
	return a.Name, ok
}

// Get implements egress.Agents.
func (r *rig) Get(ref string) (agents.Agent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.agents[config.AgentID(ref)]
	if !ok {
		return a, fault.Newf(fault.NotFound, "find agent", ref, "no such agent")
	}
	return a, nil
}

// List implements egress.Agents.
func (r *rig) List() (list []agents.Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.agents {
		list = append(list, a)
	}
	return list
}

// Changed implements egress.Agents.
func (r *rig) Changed() <-chan struct{} { return r.changed.Next() }

// Set implements egress.Agents.
func (r *rig) Set(_ context.Context, ref string, texts map[string]string, _ machine.Cause) (keys []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[config.AgentID(ref)]
	if r.full != nil {
		return nil, r.full
	}
	for key, text := range texts {
		if a.Settings, err = a.Settings.With(key, text); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	r.agents[a.ID] = a
	r.changed.Notify()
	return keys, nil
}

func (r *rig) set(id config.AgentID, key, text string) {
	r.t.Helper()
	if _, err := r.Set(r.t.Context(), string(id), map[string]string{key: text}, "test"); err != nil {
		r.t.Fatal(err)
	}
}

// rules returns the texts of an agent's rules.
func (r *rig) rules(id config.AgentID) (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range r.agents[id].Settings.NetworkRules {
		texts = append(texts, rule.String())
	}
	return texts
}

// Note implements events.Recorder.
func (r *rig) Note(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// refusals returns the events of refused flows.
func (r *rig) refusals() (list []events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == egress.FlowRefused {
			list = append(list, e)
		}
	}
	return list
}

// audited returns the entries of the audit.
func (r *rig) audited() []audit.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]audit.Entry(nil), r.entries...)
}

// recorder is the rig's audit.
type recorder struct{ *rig }

// Record implements egress.Auditor.
func (r recorder) Record(_ context.Context, e audit.Entry) (audit.Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
	return e, nil
}

// prompt waits for the next prompt that is not among the known ones.
func (r *rig) prompt() prompts.Prompt {
	r.t.Helper()
	timetest.Eventually(r.t, "a person is asked", func() bool { return len(r.broker.List()) > 0 })
	return r.broker.List()[0]
}

// choose answers a prompt.
func (r *rig) choose(id prompts.ID, c prompts.Choice) {
	r.t.Helper()
	if _, taken, err := r.broker.Choose(r.t.Context(), id, c, "a person"); err != nil || !taken {
		r.t.Fatal(taken, err)
	}
}

func subject(id config.AgentID) network.Subject { return network.Subject{Agent: id} }

func tcp(name string, port uint16) policy.Target {
	return policy.Target{Protocol: policy.TCP, Name: name, Addr: netip.MustParseAddr("93.184.216.34"), Port: port}
}

// flow returns a flow that was decided.
func flow(id config.AgentID, t policy.Target, action policy.Action) network.Flow {
	return network.Flow{Subject: subject(id), Target: t, Decision: policy.Decision{Action: action, Reason: "because"}, Sent: 10, Received: 100}
}
