package secretservice

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Names of the Secret Service API.
const (
	busName             = "org.freedesktop.secrets"
	servicePath         = dbus.ObjectPath("/org/freedesktop/secrets")
	serviceInterface    = "org.freedesktop.Secret.Service."
	collectionInterface = "org.freedesktop.Secret.Collection."
	itemInterface       = "org.freedesktop.Secret.Item."
	promptInterface     = "org.freedesktop.Secret.Prompt"
	errorPrefix         = "org.freedesktop.Secret.Error."

	none = dbus.ObjectPath("/") // no object
)

// theService is the subject of errors.
const theService = "the Secret Service"

const (
	// answerLimit bounds calls that need no person. A keyring that has just been
	// started decrypts everything first.
	answerLimit = 10 * time.Second
	// promptLimit bounds the wait for a person.
	promptLimit = 2 * time.Minute
)

const (
	// GNOME's keyring can be unlocked without a display only when it starts.
	unlockAdvice = `Log in to the desktop, or run: pkill -u $USER -x gnome-keyring-d; read -rsp 'Keyring password: ' p && printf %s "$p" | gnome-keyring-daemon --unlock`
)

// session is a connection to the keyring with its encryption key.
type session struct {
	op   string // for errors
	conn *dbus.Conn
	path dbus.ObjectPath
	key  sessionKey
}

// open connects to the keyring. It does not start a bus, which nothing would stop.
func open(ctx context.Context, op string) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(op, theService, err)
	}
	conn, err := dbus.SessionBusPrivateNoAutoStartup()
	if err != nil {
		return nil, secrets.Absent.Fault(op, theService, err).Advise(absentAdvice)
	}
	s := &session{op: op, conn: conn}
	if err := s.greet(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close ends the connection, and with it the session and its prompts.
func (s *session) close() { _ = s.conn.Close() } // every call has been answered

func (s *session) greet(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	private, public, err := newKeyPair()
	if err != nil {
		return fault.New(fault.Execution, s.op, theService, err)
	}
	var theirs dbus.Variant
	if err := s.call(ctx, servicePath, serviceInterface+"OpenSession", algorithm, dbus.MakeVariant(public))(&theirs, &s.path); err != nil {
		return err
	}
	bytes, _ := theirs.Value().([]byte)
	if s.key, err = private.agree(bytes); err != nil {
		return fault.New(fault.Execution, s.op, theService, err)
	}
	return nil
}

// enter registers the connection with the bus.
func (s *session) enter(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	stop := context.AfterFunc(limited, s.close) // the bus may not answer
	defer stop()
	err := s.conn.Auth(nil)
	if err == nil {
		err = s.conn.Hello()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return s.explain(ctx.Err())
	case err != nil:
		return secrets.Absent.Fault(s.op, "the session bus", err).Advise(absentAdvice)
	}
	return nil
}

// call returns a function that calls a method and stores its results.
func (s *session) call(ctx context.Context, path dbus.ObjectPath, method string, args ...any) func(into ...any) error {
	return func(into ...any) error {
		limited, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		return s.explain(s.conn.Object(busName, path).CallWithContext(limited, method, 0, args...).Store(into...))
	}
}

func (s *session) property(ctx context.Context, path dbus.ObjectPath, of, name string, into any) error {
	var v dbus.Variant
	if err := s.call(ctx, path, "org.freedesktop.DBus.Properties.Get", strings.TrimSuffix(of, "."), name)(&v); err != nil {
		return err
	}
	return s.explain(v.Store(into))
}

// explain turns an error of the bus or the keyring into one with a reason.
func (s *session) explain(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[dbus.Error](err); ok {
		switch {
		case e.Name == errorPrefix+"IsLocked":
			return s.locked(err)
		case e.Name == errorPrefix+"NoSuchObject", e.Name == "org.freedesktop.DBus.Error.UnknownObject", e.Name == "org.freedesktop.DBus.Error.UnknownMethod":
			return secrets.Missing.Fault(s.op, theService, err).Advise("It has just been deleted. Try again.")
		case e.Name == "org.freedesktop.DBus.Error.ServiceUnknown", e.Name == "org.freedesktop.DBus.Error.NameHasNoOwner", strings.HasPrefix(e.Name, spawnError):
			return secrets.Absent.Fault(s.op, theService, err).Advise(absentAdvice)
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fault.Wrap(s.op, theService, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, s.op, theService, err).Advise("The keyring does not answer. Restart it, or log in again.")
	}
	return fault.New(fault.Unavailable, s.op, theService, err).Advise("Try again; then restart the keyring, or log in again.")
}

// spawnError is the prefix of errors of a bus that could not start a service.
const spawnError = "org.freedesktop.DBus.Error.Spawn."

func (s *session) locked(cause error) error {
	return secrets.Locked.Fault(s.op, theService, cause).Advise(unlockAdvice)
}

// search opens a session, searches all keyrings and unlocks the items it finds.
func search(ctx context.Context, op string, by attributes) (s *session, items []dbus.ObjectPath, err error) {
	if s, err = open(ctx, op); err != nil {
		return nil, nil, err
	}
	var locked []dbus.ObjectPath
	err = s.call(ctx, servicePath, serviceInterface+"SearchItems", map[string]string(by))(&items, &locked)
	if err == nil {
		err = s.unlock(ctx, locked...)
	}
	if err != nil {
		s.close()
	}
	return s, append(items, locked...), err
}

func (s *session) unlock(ctx context.Context, what ...dbus.ObjectPath) error {
	if len(what) == 0 {
		return nil
	}
	var done []dbus.ObjectPath
	var prompt dbus.ObjectPath
	if err := s.call(ctx, servicePath, serviceInterface+"Unlock", what)(&done, &prompt); err != nil {
		return err
	}
	_, err := s.ask(ctx, prompt)
	return err
}

// alias returns the default keyring, or none.
func (s *session) alias(ctx context.Context) (keyring dbus.ObjectPath, err error) {
	err = s.call(ctx, servicePath, serviceInterface+"ReadAlias", defaultAlias)(&keyring)
	return keyring, err
}

const defaultAlias = "default"

// defaultKeyring returns the default keyring unlocked, and creates it if needed.
func (s *session) defaultKeyring(ctx context.Context) (dbus.ObjectPath, error) {
	keyring, err := s.alias(ctx)
	if err != nil {
		return none, err
	}
	if keyring != none {
		return keyring, s.unlock(ctx, keyring)
	}
	properties := map[string]dbus.Variant{collectionInterface + "Label": dbus.MakeVariant("Default")}
	var prompt dbus.ObjectPath
	if err := s.call(ctx, servicePath, serviceInterface+"CreateCollection", properties, defaultAlias)(&keyring, &prompt); err != nil {
		return none, err
	}
	result, err := s.ask(ctx, prompt)
	if err == nil && keyring == none {
		err = s.explain(result.Store(&keyring))
	}
	return keyring, err
}
