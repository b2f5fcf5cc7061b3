package egress

import (
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
)

// maxSeen bounds the targets that are kept of an agent to learn rules from: some 100 kB. What agents
// need fits; a scan is nothing to learn from.
const maxSeen = 500

// seen are the targets that an agent was refused, or would have been. Flows.mu guards it.
type seen map[policy.Target]*sighting

// sighting counts the flows to a target.
type sighting struct {
	first, last time.Time
	count       int
}

// add adds a flow, unless it was allowed.
func (s seen) add(f network.Flow) {
	if v := VerdictOf(f); v != Refused && v != Observed {
		return
	}
	t := f.Target
	at := s[t]
	if at == nil {
		if len(s) >= maxSeen {
			return
		}
		at = &sighting{first: f.Ended}
		s[t] = at
	}
	at.last = f.Ended
	at.count++
}

// Learn suggests rules for what an agent was refused, or would have been without observation, and what
// its policy still refuses. Rules that deny are decisions, not gaps: it suggests nothing against them.
func (l *Flows) Learn(agent config.AgentID, p policy.Policy) []policy.Suggestion {
	p.Observe = false
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []policy.Observation
	connected := map[string]bool{} // names that were not only resolved
	for t := range l.of(agent).seen {
		connected[t.Name] = connected[t.Name] || t.Port != 0
	}
	for t, at := range l.of(agent).seen {
		var d policy.Decision
		if t.Port == 0 && t.Protocol == "" {
			if connected[t.Name] {
				continue // the connections say more
			}
			d = p.Resolve(t.Name, now)
		} else {
			d = p.Decide(t, now)
		}
		if d.Action != policy.Allow && d.Rule == nil {
			list = append(list, policy.Observation{Target: t, First: at.first, Last: at.last, Count: at.count})
		}
	}
	return policy.Learn(list)
}
