package policy

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/config"
)

// Observation is a target that was seen.
type Observation struct {
	Target      Target
	First, Last time.Time // of its flows
	Count       int
}

// Suggestion is a rule with its evidence.
type Suggestion struct {
	Rule        config.NetworkRule
	Count       int // flows
	First, Last time.Time
	Example     Target
	isPrivate   bool // a name that was in a closed range, which sets do not open
}

// minMerged is how many hosts make a set or a rule for all hosts below a name. Two may be chance.
const minMerged = 3

// Learn returns the smallest rules that would have let all observed flows through. Hosts are merged
// only with three or more of a set, or directly below one name.
func Learn(observed []Observation) []Suggestion {
	seen := map[string]*Suggestion{} // by rule
	for _, o := range observed {
		t := o.Target
		isQUIC := t.Protocol == UDP && t.Port == quicPort
		if isQUIC || t.Name != "" && !isName(t.Name) {
			continue // no rule lets them through
		}
		t.Addr, t.Method, t.Path = plainAddr(t.Addr), "", ""
		c := Policy{}.closedRange(t.Addr)
		evidence := Suggestion{Count: o.Count, First: o.First, Last: o.Last, Example: o.Target, isPrivate: c != nil}
		rule, ok := ruleFor(t, c)
		if ok {
			add(seen, rule, evidence)
		}
		if t.Name != "" && rule.Host != t.Name { // it has to resolve, too
			t.Addr = netip.Addr{}
			if rule, ok = ruleFor(t, nil); ok {
				add(seen, rule, evidence)
			}
		}
	}
	var sets []func(config.NetworkRule) (config.NetworkRule, bool)
	for _, set := range Sets() {
		sets = append(sets, func(r config.NetworkRule) (config.NetworkRule, bool) {
			ok := inSet(set.Name, r.Host) && !seen[r.String()].isPrivate
			r.Host, r.Set = "", set.Name
			return r, ok
		})
	}
	merge(seen, sets...)
	merge(seen, siblings)
	list := make([]Suggestion, 0, len(seen))
	for _, s := range seen {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Rule.String(), b.Rule.String()))
	})
	return list
}

// add adds evidence to the suggestion of a rule.
func add(seen map[string]*Suggestion, rule config.NetworkRule, s Suggestion) {
	s.Rule = rule
	key := rule.String()
	had, ok := seen[key]
	if !ok {
		seen[key] = &s
		return
	}
	had.Count += s.Count
	had.isPrivate = had.isPrivate || s.isPrivate
	if s.First.Before(had.First) {
		had.First, had.Example = s.First, s.Example
	}
	if s.Last.After(had.Last) {
		had.Last = s.Last
	}
}

// merge replaces rules for hosts by those that merged returns for several of them, the one that covers most first.
func merge(seen map[string]*Suggestion, merged ...func(config.NetworkRule) (config.NetworkRule, bool)) {
	for again := true; again; {
		groups := map[string][]string{}
		for _, f := range merged {
			group(seen, groups, f)
		}
		again = mergeLargest(seen, groups)
	}
}

// siblings returns the rule for all hosts below the parent of a rule's host.
func siblings(r config.NetworkRule) (config.NetworkRule, bool) {
	_, parent, ok := strings.Cut(r.Host, ".")
	r.Host = "*." + parent
	return r, ok && !config.IsPublicSuffix(parent)
}

// group adds the rules for single hosts to the groups of the rules that could replace them.
func group(seen map[string]*Suggestion, groups map[string][]string, merged func(config.NetworkRule) (config.NetworkRule, bool)) {
	for key, s := range seen {
		if s.Rule.Host == "" || s.Rule.Host == config.Localhost || strings.HasPrefix(s.Rule.Host, "*") {
			continue
		}
		if r, ok := merged(s.Rule); ok {
			groups[r.String()] = append(groups[r.String()], key)
		}
	}
}

// mergeLargest merges the largest group that has enough hosts, and reports whether there was one.
func mergeLargest(seen map[string]*Suggestion, groups map[string][]string) bool {
	best := ""
	for _, rule := range slices.Sorted(maps.Keys(groups)) {
		if len(groups[rule]) >= minMerged && len(groups[rule]) > len(groups[best]) {
			best = rule
		}
	}
	rule, err := config.ParseNetworkRule(best)
	if err != nil {
		return false
	}
	for _, key := range slices.Sorted(slices.Values(groups[best])) {
		add(seen, rule, *seen[key])
		delete(seen, key)
	}
	return true
}
