// Package entry is what the host says first on a connection that is not for the services of PID 1: of which boot it is, and what it is for.
package entry

import (
	"io"

	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/fault"
)

// Port is the AF_VSOCK port of the guest for such connections.
const Port = 1026

// Entry is the head of a connection.
type Entry struct {
	Key wire.Key // of the guest protocol
	// User is whose files are meant; whether there is a room is for the guest to see. What is
	// behind the entry goes to the room's worker as it is, so that no byte of a file passes
	// PID 1. Without a user it is a line for commands, which is PID 1's.
	User string
}

// An entry is the mark, which is also the version, the key, and the user with its
// length before it.
const (
	mark = "OSAUENT1"
	head = len(mark) + wire.KeySize + 1
	// maxUser is what a length of one byte can say.
	maxUser = 255
)

// Bytes is the entry as it goes before everything else.
func (e Entry) Bytes() []byte {
	user := e.User[:min(len(e.User), maxUser)] // a longer one is no user either
	b := append(make([]byte, 0, head+len(user)), mark...)
	b = append(b, e.Key[:]...)
	b = append(b, byte(len(user)))
	return append(b, user...)
}

// Read reads an entry, and no byte after it.
func Read(from io.Reader) (Entry, error) {
	const op = "read what a connection is for"
	var b [head]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return Entry{}, fault.Wrap(op, "", err)
	}
	if string(b[:len(mark)]) != mark {
		return Entry{}, fault.Newf(fault.Rejected, op, "", "%q is no host's mark", b[:len(mark)])
	}
	user := make([]byte, b[head-1])
	if _, err := io.ReadFull(from, user); err != nil {
		return Entry{}, fault.Wrap(op, "", err)
	}
	return Entry{Key: wire.Key(b[len(mark) : head-1]), User: string(user)}, nil
}
