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

// What the Secret Service API calls its things.
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

// theService is what is spoken of in errors.
const theService = "the Secret Service"

const (
	// answerLimit is how long the keyring may take for an answer that no person
	// has to give: it may just be started, and decrypt all that it has.
	answerLimit = 10 * time.Second
	// promptLimit is how long a person may take. Who is there has answered by then,
	// and whoever waits for the secret must not do so for ever.
	promptLimit = 2 * time.Minute
)

const (
	// GNOME's keyring can be unlocked without a display only as it starts.
	unlockAdvice = `Log in to the desktop, or run: pkill -u $USER -x gnome-keyring-d; read -rsp 'Keyring password: ' p && printf %s "$p" | gnome-keyring-daemon --unlock`
)

// session is a connection to the keyring, and the key that values cross it
// under.
type session struct {
	op   string // what it is for, in errors
	conn *dbus.Conn
	path dbus.ObjectPath
	key  sessionKey
}

// open connects to the keyring. It starts no bus: nobody would end it.
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
func (s *session) close() { _ = s.conn.Close() } // all that was asked has been answered

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

// enter has the bus know this connection.
func (s *session) enter(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	stop := context.AfterFunc(limited, s.close) // the bus, too, may be silent
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

// call calls a method, and returns what stores its answer.
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

// explain says of what a bus or a keyring answered which reason that is.
func (s *session) explain(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[dbus.Error](err); ok {
		switch {
		case e.Name == errorPrefix+"IsLocked":
			return s.locked(err)
		case e.Name == errorPrefix+"NoSuchObject", e.Name == "org.freedesktop.DBus.Error.UnknownObject", e.Name == "org.freedesktop.DBus.Error.UnknownMethod":
			return secrets.Missing.Fault(s.op, theService, err).Advise("It was deleted at this moment. Try again.")
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

// spawnError begins the names of errors of a bus that could not start what was
// asked for.
const spawnError = "org.freedesktop.DBus.Error.Spawn."

func (s *session) locked(cause error) error {
	return secrets.Locked.Fault(s.op, theService, cause).Advise(unlockAdvice)
}

// find finds items in all keyrings, unlocked ones first, and has those unlocked
// that are not.
func (s *session) find(ctx context.Context, by attributes) ([]dbus.ObjectPath, error) {
	var items, locked []dbus.ObjectPath
	if err := s.call(ctx, servicePath, serviceInterface+"SearchItems", map[string]string(by))(&items, &locked); err != nil {
		return nil, err
	}
	if err := s.unlock(ctx, locked...); err != nil {
		return nil, err
	}
	return append(items, locked...), nil
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

// alias is the keyring that new items go to, or none.
func (s *session) alias(ctx context.Context) (keyring dbus.ObjectPath, err error) {
	err = s.call(ctx, servicePath, serviceInterface+"ReadAlias", defaultAlias)(&keyring)
	return keyring, err
}

const defaultAlias = "default"

// defaultKeyring is the keyring that new items go to, unlocked, and made if
// there is none.
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
