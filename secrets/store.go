// Package secrets keeps what agents need to know and nobody else may read: one interface, and a value that no print, log or JSON shows.
package secrets

import (
	"context"

	"osaurus-sandbox/config"
)

// Store keeps secrets: secrets/keychain, secrets/secretservice, secrets/agefile.
// What is promised here is what secrets/secretstest holds each of them to.
//
// A method may be called from any goroutine, and returns soon after its context
// ended. A store that is locked, absent or the wrong one for this system is
// made all the same: it says so with a Reason when it is asked for something.
// It never falls back to another.
//
// A key whose Check fails is refused with that error before anything is asked.
// No error holds a value.
type Store interface {
	// Get returns a secret. One that is not there is Missing.
	Get(context.Context, Key) (Value, error)
	// Set keeps a secret, in place of the one that the key had. After an error
	// it is the old or the new one, never a part of it. The zero Value is
	// fault.InvalidArgs.
	Set(context.Context, Key, Value) error
	// Delete forgets a secret. One that is not there is Missing.
	Delete(context.Context, Key) error
	// List names an agent's secrets, its own first and then its plugins', each in
	// alphabetical order. An agent without any has an empty list.
	List(context.Context, config.AgentID) ([]Key, error)
	// Check says in a few words how secrets are kept, or why they cannot be. It
	// asks nobody for anything, and changes nothing.
	Check(context.Context) (string, error)
}
