//go:build linux

package job

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoFileForLog: a log that once got no file for its next part has one again when there
// can be one.
func TestNoFileForLog(t *testing.T) {
	var l log
	if err := l.open(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	defer l.remove()
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	part := make([]byte, logPart)
	l.write(part)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	l.write(part)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if written, dropped := l.size(); written != 2*logPart || dropped != logPart {
		t.Errorf("without a file: %d dropped of %d", dropped, written)
	}
	l.write([]byte("next"))
	if written, dropped := l.size(); written != 2*logPart+4 || dropped != logPart {
		t.Errorf("with one: %d dropped of %d", dropped, written)
	}
}
