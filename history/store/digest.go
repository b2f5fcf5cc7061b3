package store

import (
	"crypto/sha256"
	"encoding/hex"

	"osaurus-sandbox/internal/fault"
)

// Digest names an object by the SHA-256 of its bytes. The zero Digest names nothing.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest is the inverse of String.
func ParseDigest(text string) (d Digest, err error) {
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(d) {
		return d, fault.Newf(fault.InvalidArgs, "parse digest", text, "not %d hexadecimal digits", hex.EncodedLen(len(d)))
	}
	return Digest(data), nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDigest(string(text))
	return err
}
