package agefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// PassphraseFileVariable is the environment variable that names a file with the key's passphrase,
// for daemons. The passphrase itself must not be in the environment, which other programs of the
// user can read.
const PassphraseFileVariable = "OSAURUS_PASSPHRASE_FILE"

const (
	maxKeySize = 64 << 10 // of the key file and of the passphrase file
	// scryptWork is age's default: guessing a passphrase once takes about a second
	// and 256 MiB.
	scryptWork = 18
)

type identity = *age.X25519Identity

// key is the key file: plain, or encrypted with a passphrase as by `age -p`.
type key struct {
	home   config.Home
	prompt Prompt
	work   int

	turn   chan struct{} // a lock that can time out; guards opened and id
	opened []byte        // encrypted key that was opened last
	id     identity      // its content
}

var errNoKey = errors.New("no key file")

// get returns the key, or errNoKey. It calls ask for the passphrase if ask is not
// nil.
func (k *key) get(ctx context.Context, op string, ask Prompt) (identity, error) {
	path := k.home.SecretsKey()
	text, err := readPrivate(path, maxKeySize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoKey
	case err != nil:
		return nil, err
	case isSealed(text):
		return k.unseal(ctx, op, text, ask)
	}
	return parse(op, path, text)
}

// getOrMake returns the key and creates it if needed. The caller holds the lock.
func (k *key) getOrMake(ctx context.Context, op string) (identity, error) {
	id, err := k.get(ctx, op, k.prompt)
	if !errors.Is(err, errNoKey) {
		return id, err
	}
	if _, err := os.Lstat(k.home.Secrets()); !errors.Is(err, fs.ErrNotExist) {
		return nil, k.gone(op)
	}
	if id, err = age.GenerateX25519Identity(); err != nil {
		return nil, fault.New(fault.Execution, op, k.home.SecretsKey(), err)
	}
	return id, config.WriteFile(k.home.SecretsKey(), plain(id))
}

// gone returns the error for a secrets file without its key. It creates no new key, because that
// could never decrypt the file.
func (k *key) gone(op string) error {
	file := k.home.Secrets()
	return secrets.Absent.Fault(op, k.home.SecretsKey(), fmt.Errorf("the key of %s is missing", file)).
		Advise("Restore the key, or start over: mv " + file + " " + file + ".lost")
}

// plain returns a key in age's text form.
func plain(id identity) []byte { return []byte(id.String() + "\n") }

func parse(op, path string, text []byte) (identity, error) {
	id, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil { // not wrapped: it may quote the key
		return nil, fault.Newf(fault.Rejected, op, path, "not an age key").Advise("Restore the key from a backup.")
	}
	return id, nil
}

// isSealed reports whether text is an encrypted age file.
func isSealed(text []byte) bool { return bytes.HasPrefix(text, []byte("age-encryption.org/")) }

// sealed reports whether the key has a passphrase.
func (k *key) sealed() (bool, error) {
	text, err := readPrivate(k.home.SecretsKey(), maxKeySize)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return isSealed(text), err
}

// seal encrypts a key with a passphrase.
func (k *key) seal(id identity, passphrase secrets.Value) ([]byte, error) {
	to, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(k.work)
	return seal(plain(id), to)
}

// unseal decrypts the key and remembers it, so that a person types the passphrase once.
func (k *key) unseal(ctx context.Context, op string, text []byte, ask Prompt) (identity, error) {
	path := k.home.SecretsKey()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, fault.Wrap(op, path, ctx.Err())
	}
	if bytes.Equal(text, k.opened) {
		return k.id, nil
	}
	passphrase, err := k.passphrase(ctx, op, ask)
	if err != nil {
		return nil, err
	}
	with, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, op, path, err)
	}
	inside, err := open(text, with)
	if err != nil {
		return nil, secrets.Denied.Fault(op, path, errors.New("wrong passphrase")).Advise("Try again.")
	}
	id, err := parse(op, path, inside)
	if err != nil {
		return nil, err
	}
	k.opened, k.id = text, id
	return id, nil
}

func (k *key) passphrase(ctx context.Context, op string, ask Prompt) (secrets.Value, error) {
	if path := os.Getenv(PassphraseFileVariable); path != "" {
		text, err := readPrivate(path, maxKeySize)
		if err != nil {
			return secrets.Value{}, secrets.Locked.Fault(op, k.home.SecretsKey(), err).
				Advise("Set " + PassphraseFileVariable + " to a file that holds the passphrase and that only you can read.")
		}
		return secrets.ParseValue(strings.TrimRight(string(text), "\r\n"))
	}
	if ask == nil {
		return secrets.Value{}, secrets.Locked.Fault(op, k.home.SecretsKey(), errors.New("the key has a passphrase, and there is no terminal to ask for it")).
			Advise("Set " + PassphraseFileVariable + " to a file that holds the passphrase and that only you can read.")
	}
	return ask(ctx)
}

// readPrivate reads a file of at most max bytes that only its owner can access. It
// returns fs.ErrNotExist if there is none.
func readPrivate(path string, max int64) ([]byte, error) {
	const op = "read"
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, path, err).Advise("Make the file readable for yourself.")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fault.New(fault.Execution, op, path, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.Newf(fault.Rejected, op, path, "other users can read or change it").Advise("Run: chmod 600 " + path)
	}
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Execution, op, path, err)
	case int64(len(text)) > max:
		return nil, fault.Newf(fault.Rejected, op, path, "it is larger than %d bytes", max).Advise("This is not a file of this program. Move it away.")
	}
	return text, nil
}
