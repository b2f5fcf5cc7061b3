package homelock_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/homelock"
)

// holdHome names the home that the test program locks until it is killed.
const holdHome = "OSAURUS_TEST_HOLD"

func TestMain(m *testing.M) {
	if home := os.Getenv(holdHome); home != "" {
		l, err := homelock.Take(context.Background(), config.Home(home))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("taken")
		time.Sleep(time.Hour) // it is killed before
		_ = l.Release()
	}
	os.Exit(m.Run())
}

// hold starts a process that locks a home.
func hold(t *testing.T, home config.Home) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdHome+"="+string(home))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // if it has not ended
		_ = cmd.Wait()
	})
	said := make([]byte, 100)
	if n, _ := out.Read(said); string(said[:n]) != "taken\n" {
		t.Fatalf("the other process says %q", said[:n])
	}
	return cmd
}

func newHome(t *testing.T) config.Home { return config.Home(filepath.Join(t.TempDir(), "home")) }

func lockFile(home config.Home) string { return filepath.Join(home.Locks(), "sandbox") }

func TestAnotherProcessHasIt(t *testing.T) {
	home := newHome(t)
	other := hold(t, home)
	_, err := homelock.Take(t.Context(), home)
	if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), fmt.Sprintf("%s, process %d, since ", filepath.Base(os.Args[0]), other.Process.Pid)) || fault.AdviceOf(err) == "" {
		t.Fatalf("Take: %v", err)
	}
	if o, ok := homelock.Holder(home); !ok || o.PID != other.Process.Pid {
		t.Errorf("Holder: %v, %v", o, ok)
	}
	second, err := homelock.Take(t.Context(), newHome(t))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	l, err := homelock.Take(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	if before, ok := l.Before(); !ok || before.PID != other.Process.Pid {
		t.Errorf("Before: %v, %v", before, ok)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, ok := homelock.Holder(home); ok {
		t.Error("a released home has a holder")
	}
	l, err = homelock.Take(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Before(); ok {
		t.Error("a released home has an owner before")
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// A stale file may name a process that runs: its PID was reused. It does not have the home.
func TestPidThatIsSomebodyElseNow(t *testing.T) {
	home := newHome(t)
	text := fmt.Sprintf(`{"pid": %d, "program": "before"}`, os.Getpid())
	if err := config.WriteFile(lockFile(home), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if o, ok := homelock.Holder(home); ok {
		t.Errorf("Holder: %v", o)
	}
	l, err := homelock.Take(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if before, ok := l.Before(); !ok || before.PID != os.Getpid() || before.Program != "before" {
		t.Errorf("Before: %v, %v", before, ok)
	}
}

// If the lock file names no owner, the advice says how to find it.
func TestLockWithoutAName(t *testing.T) {
	home := newHome(t)
	if _, err := home.Make(home.Locks()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(lockFile(home))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"pid": 1, "st`); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := homelock.Take(t.Context(), home); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "fuser") {
		t.Errorf("Take: %v", err)
	}
}
