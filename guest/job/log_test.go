//go:build linux

package job

import (
	"bytes"
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

// TestReadOverParts: what is read where one file of the log ends goes on in the next.
func TestReadOverParts(t *testing.T) {
	var l log
	if err := l.open(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	defer l.remove()
	all := make([]byte, logPart+8)
	for i := range all {
		all[i] = byte(i >> 2) // no two places near the end of the first are alike
	}
	l.write(all)
	for _, from := range []uint64{0, logPart - 8, logPart - 1, logPart, logPart + 7, logPart + 8} {
		for _, n := range []uint64{1, 8, 16, 2 * logPart} {
			want := all[from:min(from+n, uint64(len(all)))]
			if got, at, err := l.read(from, n); err != nil || at != from || !bytes.Equal(got, want) {
				t.Errorf("%d from %d are %d from %d, %v", n, from, len(got), at, err)
			}
		}
	}
}
