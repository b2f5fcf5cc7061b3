package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// unexplained lists the modules that a go.mod requires for what is written
// here, and whose name no paragraph of a text begins with.
func unexplained(t *testing.T, mod, text string) []string {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", mod).Output()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`/v[0-9]+$`)
	var missing []string
	for _, r := range file.Require {
		name := version.ReplaceAllString(r.Path, "")
		if !r.Indirect && !strings.Contains(text, "**"+name+"**") && !strings.Contains(text, "**"+r.Path+"**") {
			missing = append(missing, r.Path)
		}
	}
	return missing
}

func TestDependenciesAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	if missing := unexplained(t, "../../go.mod", string(text)); len(missing) > 0 {
		t.Errorf("RATIONALE.md does not say why there is %s", strings.Join(missing, ", "))
	}
	without := strings.ReplaceAll(string(text), "**modernc.org/sqlite**", "")
	if missing := unexplained(t, "../../go.mod", without); len(missing) != 1 || missing[0] != "modernc.org/sqlite" {
		t.Errorf("one paragraph less, and it misses %q", missing)
	}
}
