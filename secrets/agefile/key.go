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

// PassphraseFileVariable names the environment variable with the path of a
// file that holds the key's passphrase: for daemons, which have nobody to ask. The
// environment itself is no place for it: other programs of the user read that.
const PassphraseFileVariable = "OSAURUS_PASSPHRASE_FILE"

const (
	// maxKeySize is far above the size of a key with a passphrase, and a
	// passphrase.
	maxKeySize = 64 << 10
	// scryptWork is the logarithm of what a try at the passphrase costs: about a
	// second and 256 MiB, as age itself has it.
	scryptWork = 18
)

type identity = *age.X25519Identity

// key is the key of the file. It lies in a file of its own: as age writes keys,
// or encrypted with a passphrase, as `age -p` would.
type key struct {
	home   config.Home
	prompt Prompt
	work   int

	turn   chan struct{} // who is in it may ask for the passphrase, and has what is below
	opened []byte        // the sealed key that was opened last,
	id     identity      // and what was in it
}

var errNoKey = errors.New("there is no key")

// get returns the key; errNoKey if there is none. Ask asks for its
// passphrase, if it has one; nil asks nobody.
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

// getOrMake makes the key if there is none. Whoever calls it has the lock.
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

// gone is the error for a file without its key. No other is made: what is in
// the file would be lost.
func (k *key) gone(op string) error {
	file := k.home.Secrets()
	return secrets.Absent.Fault(op, k.home.SecretsKey(), fmt.Errorf("the key that %s is encrypted with is gone", file)).
		Advise("Bring the key back, or begin anew: mv " + file + " " + file + ".lost")
}

// plain is a key as age writes it.
func plain(id identity) []byte { return []byte(id.String() + "\n") }

func parse(op, path string, text []byte) (identity, error) {
	id, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil { // which may quote the key
		return nil, fault.Newf(fault.Rejected, op, path, "it is no key").Advise("Bring back the key that was there.")
	}
	return id, nil
}

// isSealed: as age files begin.
func isSealed(text []byte) bool { return bytes.HasPrefix(text, []byte("age-encryption.org/")) }

// sealed reports whether the key has a passphrase.
func (k *key) sealed() (bool, error) {
	text, err := readPrivate(k.home.SecretsKey(), maxKeySize)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return isSealed(text), err
}

// seal puts a passphrase on a key.
func (k *key) seal(id identity, passphrase secrets.Value) ([]byte, error) {
	to, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(k.work)
	return seal(plain(id), to)
}

// unseal opens a key that has a passphrase, and remembers it: nobody is asked
// twice, nor does every secret cost the second that a passphrase does.
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
	if err != nil { // an age file that is not what it was, or was opened by another word
		return nil, secrets.Denied.Fault(op, path, errors.New("the passphrase is wrong")).Advise("Try again with the right one.")
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
				Advise("Have " + PassphraseFileVariable + " name a file with the passphrase in it, which only you can read.")
		}
		return secrets.ParseValue(strings.TrimRight(string(text), "\r\n"))
	}
	if ask == nil {
		return secrets.Value{}, secrets.Locked.Fault(op, k.home.SecretsKey(), errors.New("it has a passphrase, and there is nobody to ask")).
			Advise("export " + PassphraseFileVariable + "=/a/file/with/the/passphrase, which nobody else can read")
	}
	return ask(ctx)
}

// readPrivate reads a file that only the user can read, and that is no longer
// than max. One that is not there is fs.ErrNotExist.
func readPrivate(path string, max int64) ([]byte, error) {
	const op = "read"
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, path, err).Advise("Make the file readable for you.")
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
		return nil, fault.Newf(fault.Rejected, op, path, "it is larger than %d bytes", max).Advise("This is none of ours: move it away.")
	}
	return text, nil
}
