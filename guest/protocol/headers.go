package protocol

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"io"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// DataPort is the guest's AF_VSOCK port for connections that begin with a DataHeader.
const DataPort = 1026

// DataHeader begins a connection from the host to DataPort.
type DataHeader struct {
	Key Key
	// User selects the room whose file worker gets the connection; PID 1 reads nothing after the
	// header. Without a user, PID 1 runs commands without input. MountUser and an id, which the call
	// Mount names, is for the FUSE messages of a mount.
	User string
}

// MountUser begins what is in the place of a user, whose name it cannot be.
const MountUser = "mount:"

// A DataHeader is its mark, which is also the version, then the key, then the user with a length byte.
const (
	dataMark  = "OSAUENT1"
	dataFixed = len(dataMark) + KeySize + 1
)

// Bytes encodes the header.
func (h DataHeader) Bytes() []byte {
	user := h.User[:min(len(h.User), 255)] // one length byte; no room's user is longer
	b := append(make([]byte, 0, dataFixed+len(user)), dataMark...)
	b = append(b, h.Key[:]...)
	b = append(b, byte(len(user)))
	return append(b, user...)
}

// ReadDataHeader reads a header and no byte after it. The caller checks the key.
func ReadDataHeader(from io.Reader) (DataHeader, error) {
	const op = "read connection header"
	b, user, err := readHeader(from, op, dataMark, dataFixed)
	if err != nil {
		return DataHeader{}, err
	}
	return DataHeader{Key: Key(b[len(dataMark) : dataFixed-1]), User: user}, nil
}

// BridgePort is the host's AF_VSOCK port that the guest's relay dials.
const BridgePort = 1025

// BridgeKey is one boot's secret between the relay and the host's bridge. It is not the guest
// protocol's key: it allows requests to the bridge but no commands in the guest.
type BridgeKey [KeySize]byte

// NewBridgeKey makes a random key.
func NewBridgeKey() (k BridgeKey) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// Caller is the header that the relay sends ahead of a program's bytes.
type Caller struct {
	Key BridgeKey
	// UID is the Linux user that the program's room belongs to.
	UID uint32
	// Plugin is the plugin whose program connected, as the kernel reports it; empty for none.
	Plugin config.PluginID
}

// A Caller is its mark, which is also the version, the key, the user in network order, and the
// plugin with a length byte.
const (
	callerMark  = "OSAUBRG2"
	callerFixed = len(callerMark) + KeySize + 4 + 1
)

// Bytes encodes the header.
func (c Caller) Bytes() []byte {
	b := append(make([]byte, 0, callerFixed+len(c.Plugin)), callerMark...)
	b = append(b, c.Key[:]...)
	b = binary.BigEndian.AppendUint32(b, c.UID)
	b = append(b, byte(len(c.Plugin))) // ids are shorter than 256 bytes
	return append(b, c.Plugin...)
}

// ReadCaller reads a header and no byte after it. It fails with fault.Rejected if the header does
// not have the key: then it is not from this boot's relay.
func ReadCaller(from io.Reader, key BridgeKey) (Caller, error) {
	const op = "read bridge header"
	b, id, err := readHeader(from, op, callerMark, callerFixed)
	if err != nil {
		return Caller{}, err
	}
	b = b[len(callerMark):]
	c := Caller{Key: BridgeKey(b[:KeySize]), UID: binary.BigEndian.Uint32(b[KeySize:])}
	if subtle.ConstantTimeCompare(c.Key[:], key[:]) != 1 {
		return Caller{}, fault.Newf(fault.Rejected, op, "", "wrong key for this boot")
	}
	if id == "" {
		return c, nil
	}
	if c.Plugin, err = config.ParsePluginID(id); err != nil {
		return Caller{}, err
	}
	return c, nil
}

// readHeader reads the fixed part, which ends with the length of a name, and the name.
func readHeader(from io.Reader, op, mark string, size int) (fixed []byte, name string, err error) {
	fixed = make([]byte, size)
	if _, err := io.ReadFull(from, fixed); err != nil {
		return nil, "", fault.Wrap(op, "", err)
	}
	if !bytes.HasPrefix(fixed, []byte(mark)) {
		return nil, "", fault.Newf(fault.Rejected, op, "", "%q is not %q", fixed[:len(mark)], mark)
	}
	rest := make([]byte, fixed[size-1])
	if _, err := io.ReadFull(from, rest); err != nil {
		return nil, "", fault.Wrap(op, "", err)
	}
	return fixed, string(rest), nil
}
