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

// hosts are the hosts of a set: names, and what "*." stands before.
type hosts struct{ names, parents map[string]bool }

// loadSets reads the sets once.
var loadSets = sync.OnceValues(func() ([]Set, map[string]hosts) {
	entries, _ := setFiles.ReadDir("sets") // embedded: neither this nor reading fails
	var list []Set
	all := map[string]hosts{}
	for _, e := range entries {
		text, _ := setFiles.ReadFile(path.Join("sets", e.Name()))
		set := Set{Name: strings.TrimSuffix(e.Name(), ".txt")}
		index := hosts{map[string]bool{}, map[string]bool{}}
		for line := range strings.Lines(string(text)) {
			host, comment, _ := strings.Cut(strings.TrimSpace(line), "#")
			if host = strings.TrimSpace(host); host != "" {
				set.Hosts = append(set.Hosts, host)
				if parent, ok := strings.CutPrefix(host, "*."); ok {
					index.parents[parent] = true
				} else {
					index.names[host] = true
				}
			} else if set.Meaning == "" {
				set.Meaning = strings.TrimSpace(comment)
			}
		}
		list = append(list, set)
		all[set.Name] = index
	}
	return list, all
})

// Sets returns the sets in the order of their names.
func Sets() []Set {
	list, _ := loadSets()
	return slices.Clone(list)
}

// inSet reports whether a set has a name. Unknown sets are empty.
func inSet(set, name string) bool {
	_, all := loadSets()
	index := all[set]
	if index.names[name] {
		return true
	}
	for len(index.parents) > 0 && name != "" {
		if _, name, _ = strings.Cut(name, "."); index.parents[name] {
			return true
		}
	}
	return false
}

// CheckSets returns an error if a rule has a set that does not exist.
func CheckSets(rules []config.NetworkRule) error {
	_, all := loadSets()
	for _, r := range rules {
		if _, ok := all[r.Set]; r.Set != "" && !ok {
			var names []string
			for _, s := range Sets() {
				names = append(names, "@"+s.Name)
			}
			return fault.Newf(fault.InvalidArgs, "read network rule", r.String(), "there is no set @%s", r.Set).Advise("Sets: " + strings.Join(names, ", ") + ".")
		}
	}
	return nil
}
