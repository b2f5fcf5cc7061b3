package secretservice

import (
	"context"
	"errors"
	"strings"

	"github.com/godbus/dbus/v5"

	"osaurus-sandbox/secrets"
)

// gnomePrompter shows GNOME's dialogs. Without a display it cannot start, which
// the keyring reports as if the user had dismissed the dialog.
const gnomePrompter = "org.gnome.keyring.SystemPrompter"

// ask shows the keyring's prompt, if there is one, and waits for the user's answer.
// It dismisses the prompt if ctx ends first.
func (s *session) ask(ctx context.Context, prompt dbus.ObjectPath) (result dbus.Variant, err error) {
	if prompt == none {
		return dbus.Variant{}, nil
	}
	if err := s.canAsk(ctx); err != nil {
		return dbus.Variant{}, err
	}
	limited, cancel := context.WithTimeout(ctx, promptLimit)
	defer cancel()
	completed := []dbus.MatchOption{dbus.WithMatchObjectPath(prompt), dbus.WithMatchInterface(promptInterface), dbus.WithMatchMember("Completed")}
	if err := s.conn.AddMatchSignalContext(limited, completed...); err != nil {
		return dbus.Variant{}, s.explain(err)
	}
	signals := make(chan *dbus.Signal, 1)
	s.conn.Signal(signals)
	defer s.conn.RemoveSignal(signals)
	dismissed, result, err := s.answer(limited, prompt, signals)
	switch {
	case err != nil:
		s.conn.Object(busName, prompt).Go(promptInterface+".Dismiss", dbus.FlagNoReplyExpected, nil)
		return dbus.Variant{}, err
	case dismissed:
		return dbus.Variant{}, secrets.Denied.Fault(s.op, theService, errors.New("the dialog was dismissed")).Advise("Try again and unlock the keyring.")
	}
	return result, nil
}

// answer shows a prompt and waits until it is completed.
func (s *session) answer(ctx context.Context, prompt dbus.ObjectPath, signals <-chan *dbus.Signal) (dismissed bool, result dbus.Variant, err error) {
	const noWindow = ""
	if err := s.call(ctx, prompt, promptInterface+".Prompt", noWindow)(); err != nil {
		return false, result, err
	}
	for {
		select {
		case signal, ok := <-signals:
			if !ok {
				return false, result, s.explain(errors.New("the keyring ended while it showed a dialog"))
			}
			if signal.Path == prompt && signal.Name == promptInterface+".Completed" {
				err := dbus.Store(signal.Body, &dismissed, &result)
				return dismissed, result, s.explain(err)
			}
		case <-ctx.Done():
			return false, result, s.explain(ctx.Err())
		}
	}
}

// canAsk returns an error if the keyring cannot show a dialog.
func (s *session) canAsk(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	const noFlags = uint32(0)
	err := s.conn.BusObject().CallWithContext(limited, "org.freedesktop.DBus.StartServiceByName", 0, gnomePrompter, noFlags).Err
	if e, ok := errors.AsType[dbus.Error](err); ok && strings.HasPrefix(e.Name, spawnError) {
		return s.locked(errors.New("no display to ask for the keyring's password"))
	}
	return nil // other keyrings have their own dialogs
}
