package egress

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
)

const (
	// FlowRefused is the kind of the events of refused flows.
	FlowRefused events.Kind = "network.refused"
	// summaryEvery is how often an agent gets an entry in the audit.
	summaryEvery = time.Hour
	// maxRefusals bounds the events of an agent in an hour: one for each destination. A scan of
	// ports has thousands of them, and the journal keeps 10,000 events.
	maxRefusals = 30
	// maxHosts bounds the hosts that are counted, and topHosts those that a summary names.
	maxHosts, topHosts = 200, 5
)

// hour counts the flows of an agent since the last summary. Flows.mu guards it.
type hour struct {
	verdicts       map[Verdict]int
	sent, received int64
	hosts          map[string]int  // flows to a host; "" are the others
	refusals       map[string]bool // destinations that have an event
}

func newHour() *hour {
	return &hour{verdicts: map[Verdict]int{}, hosts: map[string]int{}, refusals: map[string]bool{}}
}

// add counts a flow, and returns the event to record for it, if any.
func (h *hour) add(agent config.AgentName, f network.Flow) (events.Event, bool) {
	verdict := VerdictOf(f)
	h.verdicts[verdict]++
	h.sent, h.received = h.sent+f.Sent, h.received+f.Received
	host := cmp.Or(f.Target.Name, f.Target.Addr.String())
	if _, ok := h.hosts[host]; !ok && len(h.hosts) >= maxHosts {
		host = ""
	}
	h.hosts[host]++
	to := Destination(f.Target)
	key := string(f.Subject.Plugin) + " " + to
	if verdict != Refused || h.refusals[key] || len(h.refusals) >= maxRefusals {
		return events.Event{}, false // the summary counts it
	}
	h.refusals[key] = true
	return refusalEvent(agent, f, to), true
}

// refusalEvent returns the event of the first refused flow to a destination.
func refusalEvent(agent config.AgentName, f network.Flow, to string) events.Event {
	fields := map[string]string{
		"destination": to, "agent": string(agent), "id": string(f.Subject.Agent), "plugin": string(f.Subject.Plugin),
	}
	if r := f.Decision.Rule; r != nil {
		fields["rule"] = r.String()
	}
	return events.Event{Kind: FlowRefused, Time: f.Ended, Cause: f.Decision.Reason, Fields: fields}
}

// summary returns the counts for the audit.
func (h *hour) summary() string {
	var parts []string
	for _, v := range []Verdict{Allowed, Failed, Observed, Asked, Refused} {
		if n := h.verdicts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", v, n))
		}
	}
	parts = append(parts, fmt.Sprintf("%d bytes sent and %d received", h.sent, h.received))
	others := h.hosts[""]
	delete(h.hosts, "")
	hosts := slices.SortedFunc(maps.Keys(h.hosts), func(x, y string) int {
		return cmp.Or(cmp.Compare(h.hosts[y], h.hosts[x]), cmp.Compare(x, y))
	})
	for i, host := range hosts {
		if i < topHosts {
			parts = append(parts, fmt.Sprintf("%s %d", host, h.hosts[host]))
		} else {
			others += h.hosts[host]
		}
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("others %d", others))
	}
	return strings.Join(parts, ", ")
}

// summarize writes a summary of each agent to the audit every hour, and when the context ends.
func (l *Flows) summarize(life context.Context) {
	every := time.NewTicker(summaryEvery)
	defer every.Stop()
	for life.Err() == nil {
		select {
		case <-every.C:
		case <-life.Done():
		}
		for agent, text := range l.summaries() {
			name, ok := l.nameOf(agent)
			if !ok {
				l.Forget(agent) // it was deleted while a flow was added
				continue
			}
			_, err := l.Audit.Record(context.Background(), audit.Entry{
				UID: os.Getuid(), Agent: name, Client: "gateway", Action: "network.summary", Outcome: audit.OK, Detail: text,
			})
			if err != nil {
				l.Log.Error("the audit lacks a summary of the network", "agent", name, "summary", text, "error", err)
			}
		}
	}
}

// summaries returns the summaries of agents that had flows, and begins new ones.
func (l *Flows) summaries() map[config.AgentID]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	texts := map[config.AgentID]string{}
	for agent, r := range l.counts {
		if len(r.hour.verdicts) > 0 {
			texts[agent] = r.hour.summary()
			r.hour = newHour()
		}
	}
	return texts
}
