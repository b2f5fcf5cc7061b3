//go:build linux

package room

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
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
	names := callNames(t)
	for _, c := range calls {
		if name := names[c.Number]; name == "" || !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/system-calls.md does not name call %d, %q", c.Number, name)
		}
	}
}

// callNames reads the names of system calls from the source of golang.org/x/sys/unix.
func callNames(t *testing.T) map[uint32]string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("%s/unix/zsysnum_linux_%s.go", strings.TrimSpace(string(dir)), runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint32]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`).FindAllSubmatch(text, -1) {
		n, err := strconv.ParseUint(string(m[2]), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		names[uint32(n)] = strings.ToLower(string(m[1]))
	}
	return names
}
