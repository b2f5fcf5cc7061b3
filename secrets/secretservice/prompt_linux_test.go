package secretservice_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/secretservice"
	"osaurus-sandbox/secrets/secretstest"
)

// asker is a locked keyring that asks this test. Dialogs of a real one need a display.
type asker struct {
	bus       *exec.Cmd
	conn      *dbus.Conn
	asked     chan struct{} // the dialog is shown
	dismissed chan struct{} // the dialog was closed
}

const (
	askerItem   = dbus.ObjectPath("/org/freedesktop/secrets/collection/c/1")
	askerPrompt = dbus.ObjectPath("/org/freedesktop/secrets/prompt/p1")
)

func newAsker(t *testing.T) *asker {
	t.Helper()
	a := &asker{newBus(t, false), connect(t), make(chan struct{}, 1), make(chan struct{}, 1)}
	for _, export := range []struct {
		methods map[string]any
		path    dbus.ObjectPath
		of      string
	}{
		{map[string]any{
			"OpenSession": func(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
				return dbus.MakeVariant([]byte{4}), "/session", nil
			},
			"SearchItems": func(map[string]string) ([]dbus.ObjectPath, []dbus.ObjectPath, *dbus.Error) {
				return []dbus.ObjectPath{}, []dbus.ObjectPath{askerItem}, nil
			},
			"Unlock": func([]dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
				return []dbus.ObjectPath{}, askerPrompt, nil
			},
		}, "/org/freedesktop/secrets", "org.freedesktop.Secret.Service"},
		{map[string]any{
			"Delete": func() (dbus.ObjectPath, *dbus.Error) { return "/", nil },
		}, askerItem, "org.freedesktop.Secret.Item"},
		{map[string]any{
			"Prompt":  func(string) *dbus.Error { a.asked <- struct{}{}; return nil },
			"Dismiss": func() *dbus.Error { a.dismissed <- struct{}{}; return nil },
		}, askerPrompt, "org.freedesktop.Secret.Prompt"},
	} {
		if err := a.conn.ExportMethodTable(export.methods, export.path, export.of); err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := a.conn.RequestName("org.freedesktop.secrets", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return a
}

// answer answers a dialog.
func (a *asker) answer(t *testing.T, prompt dbus.ObjectPath, dismissed bool) {
	t.Helper()
	if err := a.conn.Emit(prompt, "org.freedesktop.Secret.Prompt.Completed", dismissed, dbus.MakeVariant("")); err != nil {
		t.Error(err)
	}
}

// remove makes a call that needs the keyring unlocked.
func remove(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- secretservice.New().Delete(ctx, token) }()
	return done
}

func TestPromptAnswered(t *testing.T) {
	a := newAsker(t)
	done := remove(t.Context())
	<-a.asked
	a.answer(t, "/org/freedesktop/secrets/prompt/p2", true) // another program's dialog
	a.answer(t, askerPrompt, false)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPromptDismissed(t *testing.T) {
	a := newAsker(t)
	done := remove(t.Context())
	<-a.asked
	a.answer(t, askerPrompt, true)
	if err := <-done; !errors.Is(err, secrets.Denied) || fault.KindOf(err) != fault.UserDenied || fault.AdviceOf(err) == "" {
		t.Error(err)
	}
}

// TestPromptGivenUp checks that a caller who gives up closes the dialog.
func TestPromptGivenUp(t *testing.T) {
	a := newAsker(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := remove(ctx)
	<-a.asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-a.dismissed:
	case <-time.After(patience):
		t.Error("the dialog stays")
	}
}

// TestPromptCutOff checks that the end of the bus ends the wait.
func TestPromptCutOff(t *testing.T) {
	a := newAsker(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := remove(ctx)
	<-a.asked
	stop(a.bus)
	if err := <-done; fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
		t.Error(err)
	}
	secretstest.Refuses(t, secretservice.New(), token, secrets.Absent)
}
