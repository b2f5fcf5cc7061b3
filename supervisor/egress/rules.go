package egress

import (
	"cmp"
	"maps"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/agents"
)

// Source is where a rule comes from.
type Source string

const (
	FromHome    Source = "home" // for all agents
	FromAgent   Source = "agent"
	FromSession Source = "session" // the answer to a prompt
)

// Rule is a rule that counts for an agent.
type Rule struct {
	config.NetworkRule
	Source Source
	Plugin config.PluginID // that alone the answer counts for
}

// Rules returns the rules that count for an agent, in the order of its policy.
func (p *Policies) Rules(agent agents.Agent) (list []Rule) {
	for _, r := range p.Home().NetworkRules {
		list = append(list, Rule{NetworkRule: r, Source: FromHome})
	}
	for _, r := range agent.Settings.NetworkRules {
		list = append(list, Rule{NetworkRule: r, Source: FromAgent})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	answered := slices.SortedFunc(maps.Keys(p.sessions), func(a, b network.Subject) int { return cmp.Compare(a.Plugin, b.Plugin) })
	for _, s := range answered {
		for _, r := range p.sessions[s] {
			if s.Agent == agent.ID {
				list = append(list, Rule{r, FromSession, s.Plugin})
			}
		}
	}
	return list
}
