//go:build linux

package room

import (
	"os"
	"strings"
	"testing"
)

// TestDocumented checks that the page for people names every call that the filter refuses.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/system-calls.md")
	if err != nil {
		t.Fatal(err)
	}
	f := refused()
	calls := f.Calls
	for _, c := range f.Conditions {
		calls = append(calls, c.Call)
	}
	for _, c := range calls {
		if !strings.Contains(string(text), "`"+c.Name+"`") {
			t.Errorf("docs/system-calls.md does not name %s", c.Name)
		}
	}
}
