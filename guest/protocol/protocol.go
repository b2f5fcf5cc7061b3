// Package protocol defines what host and guest share besides the schema in guestpb: versions, ports, keys, headers, limits and checks.
package protocol

import (
	"crypto/subtle"
	"encoding/hex"
	"fmt"

	"osaurus-sandbox/internal/fault"
)

// The versions of the protocol that this program speaks. A change that the
// other end can ignore does not need a new version.
const (
	VersionMin = 3
	VersionMax = 3
)

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
	var k Key
	if len(s) != hex.EncodedLen(KeySize) {
		return k, fault.Newf(fault.Rejected, "check boot key", "", "missing key or wrong length")
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return k, fault.New(fault.Rejected, "check boot key", "", err)
	}
	return k, nil
}

// Negotiate returns the highest version that both ends speak.
func Negotiate(hostMin, hostMax uint32) (uint32, error) {
	const op = "agree on a protocol version"
	ranges := fmt.Sprintf("host %d–%d, guest %d–%d", hostMin, hostMax, VersionMin, VersionMax)
	switch v := min(hostMax, VersionMax); {
	case hostMin > hostMax || hostMin == 0:
		return 0, fault.Newf(fault.InvalidArgs, op, "", "%s is not a range", ranges)
	case v < VersionMin:
		return 0, fault.Newf(fault.Rejected, op, "", "the guest is too new: %s", ranges).
			Advise("Build the image with the guest program of this release: `osaurus-sandbox pack build`.")
	case v < hostMin:
		return 0, fault.Newf(fault.Rejected, op, "", "the guest is too old: %s", ranges).
			Advise("Build the image with the guest program of this release: `osaurus-sandbox pack build`.")
	default:
		return v, nil
	}
}
