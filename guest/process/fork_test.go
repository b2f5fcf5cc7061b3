//go:build linux

package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// TestHangingExec starts a child whose execve hangs, because its program is leased. Neither the
// garbage collector nor other children wait for it.
func TestHangingExec(t *testing.T) {
	m, err := NewManager(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	startWith := func(program string, input *os.File) (*Child, error) {
		return m.Start(Spec{Args: []string{program}, Dir: "/", Input: input})
	}
	start := func(program string) (*Child, error) { return startWith(program, nil) }
	script, letGo := hanging(t)
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	reader, err := startWith("/bin/cat", theirs)
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		child *Child
		err   error
	}
	hung := make(chan result, 1)
	go func() {
		c, err := start(script)
		hung <- result{c, err}
	}()
	began := time.Now()
	for time.Since(began) < time.Second {
		runtime.GC()
		c, err := start("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
	}
	// The kernel takes a lease away after 45 seconds.
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("the others took %v", took)
	}
	_ = ours.Close()
	select {
	case r := <-hung:
		t.Errorf("it did not hang, or another's input had no end before: %v", r.err)
		hung <- r
	case <-reader.Done():
	}
	letGo()
	r := <-hung
	if r.err != nil {
		t.Fatal(r.err)
	}
	if <-r.child.Done(); r.child.Status() != 0 {
		t.Errorf("status %v", r.child.Status())
	}
}

// hanging returns a program whose execve hangs until letGo is called.
func hanging(t *testing.T) (script string, letGo func()) {
	script = filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	leased, err := os.Open(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leased.Close() })
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases here: %v", err)
	}
	return script, func() {
		if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailedExec checks that Start returns the error of execve.
func TestFailedExec(t *testing.T) {
	m, err := NewManager(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Start(Spec{Args: []string{"true"}, Dir: "a\x00b"}); fault.KindOf(err) != fault.InvalidArgs {
		t.Error(err)
	}
	for _, tc := range []struct {
		args []string
		kind fault.Kind
		says string
	}{
		{[]string{empty}, fault.Execution, unix.ENOEXEC.Error()},
		{[]string{"/bin/true", strings.Repeat("x", 1<<20)}, fault.InvalidArgs, unix.E2BIG.Error()},
		{[]string{"/bin/true", "a\x00b"}, fault.InvalidArgs, "NUL"},
		{nil, fault.InvalidArgs, "no program"},
	} {
		if _, err := m.Start(Spec{Args: tc.args, Dir: "/"}); fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%.20q: %v (%s), want %s", tc.args, err, fault.KindOf(err), tc.says)
		}
	}
}
