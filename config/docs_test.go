package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOperatorsCanReadOfEveryKey holds docs/operators.md to the settings that there
// are: a row with each key, and when it counts.
func TestOperatorsCanReadOfEveryKey(t *testing.T) {
	text, err := os.ReadFile("../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	of := func(section string) [][]string {
		_, text, _ := strings.Cut(string(text), "\n## "+section+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		var rows [][]string
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "| `") {
				rows = append(rows, strings.Split(line, "|"))
			}
		}
		return rows
	}
	row := func(rows [][]string, key string) []string {
		i := slices.IndexFunc(rows, func(row []string) bool { return strings.Contains(row[1], "`"+key+"`") })
		if i < 0 {
			t.Fatalf("docs/operators.md does not say what %s is", key)
		}
		return rows[i]
	}

	rows := of("Settings")
	for _, f := range fields() {
		counts := map[Effect]string{Live: "at once", NextStart: "next start"}[fields().effect(f.key)]
		if said := strings.TrimSpace(row(rows, f.key)[4]); said != counts {
			t.Errorf("docs/operators.md says that %s counts %s, and it counts %s", f.key, said, counts)
		}
	}
	rows = of("Settings of an agent")
	for _, key := range AgentKeys() {
		row(rows, key)
	}
}
