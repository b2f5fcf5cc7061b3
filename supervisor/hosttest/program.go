package hosttest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"osaurus-sandbox/guest/embedded"
)

// Program is osaurus-host as rooms have it, in a file of the test's own.
func Program(t testing.TB) string {
	t.Helper()
	programs, err := embedded.Programs(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "osaurus-host")
	// Another process writes it: what this one has open for writing, so may a child that it is
	// just starting elsewhere, and then it cannot be run.
	write := exec.Command("sh", "-c", `cat > "$1" && chmod 700 "$1"`, "sh", file)
	write.Stdin = bytes.NewReader(programs["osaurus-host"])
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return file
}
