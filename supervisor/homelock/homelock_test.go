package homelock_test

import (
	"context"
	"encoding/json"
	"errors"
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

// holdHome, when set, has the test program take that home and keep it.
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

// hold has another process take a home, and returns when it has.
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
	second, err := homelock.Take(t.Context(), newHome(t)) // another home is another matter
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
	if before, ok := l.Before(); !ok || before.PID != other.Process.Pid || before.Lives() {
		t.Errorf("Before: %v, %v", before, ok)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, ok := homelock.Holder(home); ok {
		t.Error("somebody has what was given back")
	}
	l, err = homelock.Take(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Before(); ok {
		t.Error("a home that was given back has an owner before")
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// A file whose pid is that of a living process proves nothing.
func TestPidThatIsSomebodyElseNow(t *testing.T) {
	self, err := homelock.Self()
	if err != nil {
		t.Fatal(err)
	}
	if !self.Lives() {
		t.Fatal("this process does not live")
	}
	older, elsewhere := self, self
	older.Started--
	elsewhere.Boot = "another boot"
	for name, o := range map[string]homelock.Owner{"another start": older, "another boot": elsewhere} {
		t.Run(name, func(t *testing.T) {
			if o.Lives() {
				t.Error("it is taken for alive")
			}
			home := newHome(t)
			write(t, home, o)
			l, err := homelock.Take(t.Context(), home)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if before, ok := l.Before(); !ok || before.PID != self.PID {
				t.Errorf("Before: %v, %v", before, ok)
			}
		})
	}
}

// A lock that is held by nobody who can be named, such as a program of another
// kind, is refused too, and it is said how to find out.
func TestLockWithoutAName(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "damaged": `{"pid": 1, "st`, "huge": strings.Repeat(" ", 1<<20) + `{"pid":1}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := newHome(t)
			if _, err := home.Make(home.Locks()); err != nil {
				t.Fatal(err)
			}
			f, err := os.Create(lockFile(home))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := homelock.Take(t.Context(), home); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "fuser") {
				t.Errorf("Take: %v", err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Whoever no longer wants a home does not wait for it.
func TestTakeEndsWithItsContext(t *testing.T) {
	home := newHome(t)
	if _, err := home.Make(home.Locks()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(lockFile(home))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := homelock.Take(ctx, home); !errors.Is(err, context.Canceled) {
		t.Errorf("Take: %v", err)
	}
}

// A home is a home whatever its name is.
func TestOddHomes(t *testing.T) {
	for _, name := range []string{"with spaces", "mit Umlauten äöü 家", strings.Repeat("long", 37)} {
		l, err := homelock.Take(t.Context(), config.Home(filepath.Join(t.TempDir(), name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}

func write(t *testing.T, home config.Home, o homelock.Owner) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.WriteFile(lockFile(home), text); err != nil {
		t.Fatal(err)
	}
}
