// Package preface is what the guest's relay says of a program before the program's own bytes: of which boot it is, which Linux user, and which plugin.
package preface

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"io"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
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
	// Plugin is the plugin whose program made the connection, by the kernel's word; empty
	// is none.
	Plugin config.PluginID
}

// A preface is the mark, which is also the version, the key, the user in network
// order, and the plugin with its length before it.
const (
	mark = "OSAUBRG2"
	head = len(mark) + KeySize + 4 + 1
)

// Bytes is the preface as it goes before everything else.
func (p Preface) Bytes() []byte {
	b := append(make([]byte, 0, head+len(p.Plugin)), mark...)
	b = append(b, p.Key[:]...)
	b = binary.BigEndian.AppendUint32(b, p.UID)
	b = append(b, byte(len(p.Plugin))) // an id is far shorter than that can say
	return append(b, p.Plugin...)
}

// Read reads a preface, and no byte after it. One that does not have the key is
// fault.Rejected: whoever wrote it is not the relay of this boot.
func Read(from io.Reader, key Key) (Preface, error) {
	const op = "read who is connected"
	var b [head]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return Preface{}, fault.Wrap(op, "", err)
	}
	rest, ok := bytes.CutPrefix(b[:], []byte(mark))
	if !ok {
		return Preface{}, fault.Newf(fault.Rejected, op, "", "%q is no relay's mark", b[:len(mark)])
	}
	p := Preface{Key: Key(rest), UID: binary.BigEndian.Uint32(rest[KeySize:])}
	if subtle.ConstantTimeCompare(p.Key[:], key[:]) != 1 {
		return Preface{}, fault.Newf(fault.Rejected, op, "", "it has not the key of this boot")
	}
	id := make([]byte, b[head-1])
	if _, err := io.ReadFull(from, id); err != nil {
		return Preface{}, fault.Wrap(op, "", err)
	}
	if len(id) == 0 {
		return p, nil
	}
	plugin, err := config.ParsePluginID(string(id))
	if err != nil {
		return Preface{}, err
	}
	p.Plugin = plugin
	return p, nil
}
