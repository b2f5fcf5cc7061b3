package egress

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
)

const (
	// MaxFlows is how many flows are kept of an agent: some 200 kB, an hour of usual work.
	MaxFlows = 500
	// maxName and maxText bound the texts of a kept flow in bytes, which the guest chooses.
	maxName, maxText = 255, 200
)

// Verdict is what happened to a flow.
type Verdict string

const (
	Allowed  Verdict = "allowed"
	Refused  Verdict = "refused"
	Observed Verdict = "observed" // allowed only because the agent is observed
	Failed   Verdict = "failed"   // allowed, but the outside could not be reached
	Asked    Verdict = "asked"    // a lookup: a person is asked when the agent connects
)

// VerdictOf returns what happened to a flow.
func VerdictOf(f network.Flow) Verdict {
	switch {
	case f.Decision.Observed:
		return Observed
	case f.Decision.Action == policy.Ask && isLookup(f.Target):
		return Asked
	case f.Decision.Action != policy.Allow:
		return Refused
	case f.Error != "":
		return Failed
	}
	return Allowed
}

// Destination returns what a flow goes to as a text: "api.example.org:443", "udp 192.0.2.1:53".
func Destination(t policy.Target) string {
	text := t.String()
	if t.Method != "" {
		text = t.Method + " " + text + t.Path
	}
	if t.Protocol == policy.UDP || t.Protocol == policy.ICMP {
		text = string(t.Protocol) + " " + text
	}
	return text
}

// Flow is a flow of the log. Seq counts the flows of an agent from 1.
type Flow struct {
	Seq events.Seq
	network.Flow
}

// Auditor is the audit log of a home: *audit.Log.
type Auditor interface {
	Record(context.Context, audit.Entry) (audit.Entry, error)
}

// FlowOptions configure Flows.
type FlowOptions struct {
	// Name returns an agent's name, or false if there is no such agent.
	Name   func(config.AgentID) (config.AgentName, bool)
	Events events.Recorder
	Audit  Auditor
	Log    *slog.Logger
}

// Flows keeps the newest flows of each agent in memory, writes refused ones into the journal and
// summaries into the audit. Its methods may be called from any goroutine.
type Flows struct {
	FlowOptions
	*events.Rings[Flow]
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex // held for moments only
	counts map[config.AgentID]*counts
}

// counts are what is counted of an agent's flows. Flows.mu guards it.
type counts struct {
	hour *hour
	seen seen
}

// NewFlows returns an empty log. Close it before the audit and the journal.
func NewFlows(o FlowOptions) *Flows {
	l := &Flows{FlowOptions: o, counts: map[config.AgentID]*counts{}}
	l.Rings = events.NewRings[Flow](MaxFlows, func(agent config.AgentID) bool {
		_, ok := l.nameOf(agent)
		return ok
	})
	life, end := context.WithCancel(context.Background())
	l.end = end
	l.work.Go(func() { l.summarize(life) })
	return l
}

// Close writes the last summaries.
func (l *Flows) Close() {
	l.end()
	l.work.Wait()
}

// Record adds a flow. It does not block.
func (l *Flows) Record(f network.Flow) {
	name, ok := l.nameOf(f.Subject.Agent)
	if !ok {
		return // deleted, and so is its log
	}
	f = bounded(f)
	l.Add(f.Subject.Agent, func(seq events.Seq) Flow { return Flow{seq, f} })
	l.mu.Lock()
	of := l.of(f.Subject.Agent)
	of.seen.add(f)
	e, ok := of.hour.add(name, f)
	l.mu.Unlock()
	if ok {
		l.Events.Note(e)
	}
}

// of returns the counts of an agent. The caller holds mu.
func (l *Flows) of(agent config.AgentID) *counts {
	if l.counts[agent] == nil {
		l.counts[agent] = &counts{newHour(), seen{}}
	}
	return l.counts[agent]
}

// nameOf returns the name of an agent. The guest's root has none.
func (l *Flows) nameOf(agent config.AgentID) (config.AgentName, bool) {
	if agent == "" {
		return "", true
	}
	return l.Name(agent)
}

// bounded returns a flow as the log keeps it: without long texts, and without memory that belongs to
// the gateway.
func bounded(f network.Flow) network.Flow {
	cut := func(text string, most int) string { return strings.Clone(printable.Cut(text, most)) }
	f.Target.Name = cut(f.Target.Name, maxName)
	f.Target.Path, f.Target.Method, f.Error = cut(f.Target.Path, maxText), cut(f.Target.Method, maxText), cut(f.Error, maxText)
	f.Decision.Reason, f.Decision.Advice = cut(f.Decision.Reason, maxText), cut(f.Decision.Advice, maxText)
	if isLookup(f.Target) {
		f.Target = policy.Target{Name: f.Target.Name} // a query: the name alone says what it was for
	}
	if f.Ended.IsZero() {
		f.Ended = time.Now()
	}
	return f
}

// isLookup reports whether a flow is a query to the gateway: of the gateway, or as the log keeps it.
func isLookup(t policy.Target) bool {
	return t.Protocol == "" || t.Protocol == policy.UDP && t.Port == network.PortDNS && !t.Addr.IsValid()
}

// Forget drops the log of a deleted agent. Readers that follow it end with an error.
func (l *Flows) Forget(agent config.AgentID) {
	l.Rings.Forget(agent)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.counts, agent)
}
