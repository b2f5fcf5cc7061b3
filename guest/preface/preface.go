// Package preface is what the guest's relay says of a program before the program's own bytes: of which boot it is, and which Linux user.
package preface

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"osaurus-sandbox/fault"
)

// Port is the AF_VSOCK port of the host that the relay dials.
const Port = 1025

// KeySize makes the key impossible to guess.
const KeySize = 32

// Key is the secret of one boot of which the relay and the host know. It is another
// one than the guest protocol's: who has this can ask, and command nothing.
type Key [KeySize]byte

// NewKey makes the key of a boot.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// Preface is the head of a connection.
type Preface struct {
	Key Key
	// UID is the Linux user that the connection is of: in a room the room's own, whoever
	// of its processes made it.
	UID uint32
}

// A preface is the mark, which is also the version, the key, and the user in
// network order.
const (
	mark = "OSAUBRG1"
	// Size is that of every preface.
	Size = len(mark) + KeySize + 4
)

// Bytes is the preface as it goes before everything else.
func (p Preface) Bytes() []byte {
	b := append(make([]byte, 0, Size), mark...)
	b = append(b, p.Key[:]...)
	return binary.BigEndian.AppendUint32(b, p.UID)
}

// Read reads a preface, and no byte after it. One that does not have the key is
// fault.Rejected: whoever wrote it is not the relay of this boot.
func Read(from io.Reader, key Key) (Preface, error) {
	const op = "read who is connected"
	var b [Size]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return Preface{}, fault.New(fault.KindOf(err), op, "", err)
	}
	rest, ok := bytes.CutPrefix(b[:], []byte(mark))
	if !ok {
		return Preface{}, fault.New(fault.Rejected, op, "", fmt.Errorf("%q is no relay's mark", b[:len(mark)]))
	}
	p := Preface{Key: Key(rest), UID: binary.BigEndian.Uint32(rest[KeySize:])}
	if subtle.ConstantTimeCompare(p.Key[:], key[:]) != 1 {
		return Preface{}, fault.New(fault.Rejected, op, "", errors.New("it has not the key of this boot"))
	}
	return p, nil
}
