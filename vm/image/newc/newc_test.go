package newc_test

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/newc"
)

func archive(t *testing.T, entries ...newc.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newc.NewWriter(&b)
	for _, e := range entries {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var sample = []newc.Entry{
	{Name: "dev", Mode: newc.Dir | 0o755},
	{Name: "dev/null", Mode: newc.CharDevice | 0o666, Major: 1, Minor: 3},
	{Name: "dev/console", Mode: newc.CharDevice | 0o600, Major: 5, Minor: 1},
	{Name: "init", Mode: newc.File | 0o755, Data: []byte("12345")},
	{Name: "empty", Mode: newc.File | 0o644},
}

func TestLayout(t *testing.T) {
	b := archive(t, sample[3])
	want := "070701" + "00000001" + "000081ed" + "00000000" + "00000000" + "00000001" + "00000000" + "00000005" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000005" + "00000000" + "init\x00\x00" + "12345\x00\x00\x00"
	if got := string(b[:len(want)]); got != want {
		t.Errorf("archive starts with\n%q, want\n%q", got, want)
	}
	if len(b)%4 != 0 {
		t.Errorf("archive of %d bytes is not padded", len(b))
	}
}

// What an independent reader makes of it.
func TestReadByCpio(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("no cpio on this host; the kernel reads the archive in the tests of package image")
	}
	cmd := exec.Command(cpio, "-tv", "--quiet", "--numeric-uid-gid")
	cmd.Stdin = bytes.NewReader(archive(t, sample...))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"drwxr-xr-x", "crw-rw-rw-", "1,   3", "5,   1", "-rwxr-xr-x", "dev/console", "empty"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("listing lacks %q:\n%s", want, out)
		}
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"", "TRAILER!!!", strings.Repeat("a", 4096)} {
		err := newc.NewWriter(&bytes.Buffer{}).Write(newc.Entry{Name: name})
		if fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("name of %d bytes: %v", len(name), err)
		}
	}
}

type full struct{ room int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteErrorSticks(t *testing.T) {
	w := newc.NewWriter(&full{room: 120})
	if err := w.Write(newc.Entry{Name: "a", Mode: newc.File, Data: make([]byte, 100)}); !errors.Is(err, errFull) {
		t.Errorf("Write = %v", err)
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close = %v", err)
	}
}
