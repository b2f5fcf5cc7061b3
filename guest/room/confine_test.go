//go:build linux

package room

import (
	"os"
	"strings"
	"testing"
)

// SECURITY.md lists what the filter refuses.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
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
			t.Errorf("SECURITY.md does not name %s", c.Name)
		}
	}
}
