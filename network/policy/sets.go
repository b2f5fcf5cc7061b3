package policy

import (
	"embed"
	"path"
	"slices"
	"strings"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

//go:embed sets/*.txt
var setFiles embed.FS

// Set is a list of hosts with a name, for rules: "allow @github".
type Set struct {
	Name    string
	Meaning string   // for people
	Hosts   []string // "github.com", "*.github.com"
}

// loadSets reads the sets once.
var loadSets = sync.OnceValue(func() []Set {
	entries, _ := setFiles.ReadDir("sets") // embedded: neither this nor reading fails
	var list []Set
	for _, e := range entries {
		text, _ := setFiles.ReadFile(path.Join("sets", e.Name()))
		set := Set{Name: strings.TrimSuffix(e.Name(), ".txt")}
		for line := range strings.Lines(string(text)) {
			host, comment, _ := strings.Cut(strings.TrimSpace(line), "#")
			if host = strings.TrimSpace(host); host != "" {
				set.Hosts = append(set.Hosts, host)
			} else if set.Meaning == "" {
				set.Meaning = strings.TrimSpace(comment)
			}
		}
		list = append(list, set)
	}
	return list
})

// Sets returns the sets in the order of their names.
func Sets() []Set { return slices.Clone(loadSets()) }

// inSet reports whether a set has a name. Unknown sets are empty.
func inSet(set, name string) bool {
	return slices.ContainsFunc(loadSets(), func(s Set) bool {
		return s.Name == set && slices.ContainsFunc(s.Hosts, func(host string) bool { return matchesName(host, name) })
	})
}

// CheckSets returns an error if a rule has a set that does not exist.
func CheckSets(rules []config.NetworkRule) error {
	var names []string
	for _, s := range loadSets() {
		names = append(names, "@"+s.Name)
	}
	for _, r := range rules {
		if r.Set != "" && !slices.Contains(names, "@"+r.Set) {
			return fault.Newf(fault.InvalidArgs, "read network rule", r.String(), "there is no set @%s", r.Set).Advise("Sets: " + strings.Join(names, ", ") + ".")
		}
	}
	return nil
}
