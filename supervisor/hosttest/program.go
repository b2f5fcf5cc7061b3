package hosttest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"osaurus-sandbox/guest/embedded"
)

// Program writes osaurus-host to a temporary file.
func Program(t testing.TB) string {
	t.Helper()
	programs, err := embedded.Programs(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "osaurus-host")
	// Another process writes the file: a child that starts now could inherit a descriptor
	// for writing, and then the file could not be executed.
	write := exec.Command("sh", "-c", `cat > "$1" && chmod 700 "$1"`, "sh", file)
	write.Stdin = bytes.NewReader(programs["osaurus-host"])
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return file
}
