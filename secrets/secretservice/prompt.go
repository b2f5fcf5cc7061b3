package secretservice

import (
	"context"
	"errors"
	"strings"

	"github.com/godbus/dbus/v5"

	"osaurus-sandbox/secrets"
)

// gnomePrompter is what shows GNOME's dialogs. On a computer without a display it
// cannot be started, and the keyring takes that for a dismissal by its owner.
const gnomePrompter = "org.gnome.keyring.SystemPrompter"

// ask has the keyring ask its owner, if it wants to, and waits for the answer. A
// dialog that nobody waits for any more is taken away.
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
		return dbus.Variant{}, secrets.Denied.Fault(s.op, theService, errors.New("the dialog was dismissed")).Advise("Try again, and unlock the keyring when it asks.")
	}
	return result, nil
}

// answer has a dialog shown and waits for its end.
func (s *session) answer(ctx context.Context, prompt dbus.ObjectPath, signals <-chan *dbus.Signal) (dismissed bool, result dbus.Variant, err error) {
	const noWindow = ""
	if err := s.call(ctx, prompt, promptInterface+".Prompt", noWindow)(); err != nil {
		return false, result, err
	}
	for {
		select {
		case signal, ok := <-signals:
			if !ok {
				return false, result, s.explain(errors.New("it went away while it asked its owner"))
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

// canAsk reports a keyring that cannot show anything to its owner.
func (s *session) canAsk(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	const noFlags = uint32(0)
	err := s.conn.BusObject().CallWithContext(limited, "org.freedesktop.DBus.StartServiceByName", 0, gnomePrompter, noFlags).Err
	if e, ok := errors.AsType[dbus.Error](err); ok && strings.HasPrefix(e.Name, spawnError) {
		return s.locked(errors.New("there is no display to ask for its password on"))
	}
	return nil // it can be shown, or another keyring has dialogs of its own
}
