package secretservice_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/secretservice"
	"osaurus-sandbox/secrets/secretstest"
)

var token = secrets.Key{Agent: secretstest.Alice, Plugin: "a.b", Name: "TOKEN"}

func TestSuite(t *testing.T) {
	newBus(t, false)
	startKeyring(t, "password")
	before := runtime.NumGoroutine()
	secretstest.Run(t, func(*testing.T) secrets.Store { return secretservice.New() })
	timetest.Eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// TestOtherPrograms checks that other programs find our items, and that we find theirs.
func TestOtherPrograms(t *testing.T) {
	newBus(t, false)
	startKeyring(t, "password")
	ctx, s := t.Context(), secretservice.New()
	names := []string{"service", token.Service(), "account", token.Account()}
	if _, err := tool(ctx, "theirs", append([]string{"store", "--label=theirs"}, names...)...); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(ctx, token); err != nil || v.Reveal() != "theirs" {
		t.Errorf("Get() = %q, %v", v.Reveal(), err)
	}
	if err := s.Set(ctx, token, secretstest.Value(t, "ours")); err != nil {
		t.Fatal(err)
	}
	if out, err := tool(ctx, "", append([]string{"lookup"}, names...)...); err != nil || out != "ours" {
		t.Errorf("secret-tool finds %q, %v", out, err)
	}
	// Items of other programs.
	for _, account := range []string{"TOKEN", string(secretstest.Alice), ""} {
		if _, err := tool(ctx, "x", "store", "--label=x", "service", token.Service(), "account", account); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := s.List(ctx, secretstest.Alice); err != nil || len(keys) != 1 || keys[0] != token {
		t.Errorf("List() = %v, %v", keys, err)
	}
	if err := s.Delete(ctx, token); err != nil {
		t.Fatal(err)
	}
	if out, err := tool(ctx, "", append([]string{"lookup"}, names...)...); err == nil {
		t.Errorf("secret-tool finds %q after Delete", out)
	}
}

// TestLocked checks the error of a locked keyring, and that it works once unlocked. It is locked by
// hand, and because it was not started by a login.
func TestLocked(t *testing.T) {
	newBus(t, true)
	keyring := startKeyring(t, "password")
	ctx, s := t.Context(), secretservice.New()
	if err := s.Set(ctx, token, secretstest.Value(t, "x")); err != nil {
		t.Fatal(err)
	}
	lock(t)
	secretstest.Refuses(t, s, token, secrets.Locked)
	stop(keyring)
	keyring = startKeyring(t, "")
	secretstest.Refuses(t, s, token, secrets.Locked)
	stop(keyring)
	startKeyring(t, "password")
	if v, err := s.Get(ctx, token); err != nil || v.Reveal() != "x" {
		t.Errorf("unlocked again: %v", err)
	}
}

// TestAbsent tries no bus, no keyring on it, and a keyring without a default.
func TestAbsent(t *testing.T) {
	s := secretservice.New()
	t.Run("no keyring", func(t *testing.T) {
		newBus(t, false)
		secretstest.Refuses(t, s, token, secrets.Absent)
	})
	t.Run("no bus", func(t *testing.T) {
		t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
		t.Setenv("HOME", t.TempDir())
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
		secretstest.Refuses(t, s, token, secrets.Absent)
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", "nonsense")
		secretstest.Refuses(t, s, token, secrets.Absent)
	})
	t.Run("no default", func(t *testing.T) {
		newBus(t, true)
		startKeyring(t, "")
		if _, err := s.Check(t.Context()); !errors.Is(err, secrets.Absent) {
			t.Errorf("Check: %v", err)
		}
		if _, err := s.Get(t.Context(), token); !errors.Is(err, secrets.Missing) {
			t.Errorf("Get: %v", err)
		}
		if err := s.Set(t.Context(), token, secretstest.Value(t, secretstest.Canary)); !errors.Is(err, secrets.Locked) {
			t.Errorf("Set: %v", err) // the keyring would ask for a new password
		}
	})
}

// TestOnTheWire checks that no value is on the bus or the disk.
func TestOnTheWire(t *testing.T) {
	newBus(t, false)
	startKeyring(t, "password")
	conn := connect(t)
	if err := conn.BusObject().Call("org.freedesktop.DBus.Monitoring.BecomeMonitor", 0, []string{}, uint32(0)).Err; err != nil {
		t.Fatal(err)
	}
	messages := eavesdrop(t, conn)
	s := secretservice.New()
	if err := s.Set(t.Context(), token, secretstest.Value(t, secretstest.Canary)); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(t.Context(), token); err != nil || v.Reveal() != secretstest.Canary {
		t.Fatal(err)
	}
	const end = "org.example.End" // it arrives after all earlier messages
	if err := connect(t).BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, end).Err; err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for !strings.Contains(all.String(), end) {
		select {
		case m := <-messages:
			all.WriteString(m)
		case <-time.After(patience):
			t.Fatalf("the end is not heard: %s", &all)
		}
	}
	if !strings.Contains(all.String(), "GetSecret") {
		t.Errorf("nothing is heard: %s", &all)
	}
	if strings.Contains(all.String(), secretstest.Canary) {
		t.Error("the value is on the bus")
	}
	err := filepath.WalkDir(os.Getenv("HOME"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(secretstest.Canary)) {
			t.Errorf("the value is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSilence checks that a hanging keyring does not delay a caller beyond its deadline.
func TestSilence(t *testing.T) {
	newBus(t, false)
	keyring := startKeyring(t, "password")
	if err := keyring.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := secretservice.New().Get(ctx, token)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > patience {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
