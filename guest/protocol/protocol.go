// Package protocol defines what host and guest share besides the schema in guestpb: versions, ports, keys, headers and limits.
package protocol

import (
	"crypto/subtle"
	"encoding/hex"

	"osaurus-sandbox/internal/fault"
)

// Version is the version of the protocol. Host and guest must have the same. A change that the
// other end can ignore does not need a new one.
const Version = 1

// Port is the AF_VSOCK port that the guest listens on.
const Port = 1024

// KeyHeader carries the key, in hexadecimal.
const KeyHeader = "Osaurus-Key"

// KeySize is the length of a key in bytes.
const KeySize = 32

// Key authenticates the host for one boot. The host makes it and the guest requires it.
type Key [KeySize]byte

// Header returns the key as KeyHeader carries it.
func (k Key) Header() string { return hex.EncodeToString(k[:]) }

// Equal compares in constant time.
func (k Key) Equal(o Key) bool { return subtle.ConstantTimeCompare(k[:], o[:]) == 1 }

// ParseKey reads a key as Hello carries it.
func ParseKey(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, fault.Newf(fault.InvalidArgs, "read boot key", "", "%d bytes instead of %d", len(b), KeySize)
	}
	return Key(b), nil
}

// ParseKeyHeader reads a key as KeyHeader carries it.
func ParseKeyHeader(s string) (Key, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != KeySize {
		return Key{}, fault.Newf(fault.Rejected, "check boot key", "", "the key is missing or malformed")
	}
	return Key(b), nil
}
