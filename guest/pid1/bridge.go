//go:build linux

package pid1

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/relay"
)

// shim is the program that asks the bridge, where the guest keeps it.
const shim = own + "/host"

// openBridge lets programs of the guest itself ask the host, if it serves a bridge, and
// rooms have ways of their own.
func (m *machine) openBridge(key []byte) {
	if len(key) != protocol.KeySize {
		return // none: the service has checked it
	}
	r := relay.New(protocol.BridgeKey(key), dialBridge)
	m.relay.Store(r)
	if _, err := r.Guest(protocol.BridgeSocket); err != nil {
		m.warn("serve the bridge", err)
	}
}

// hostWindow is what the kernel holds of the host's answers for a connection to the bridge,
// while a program does not read them; by default it would be twice that. With half of it the
// kernel would send the host a packet for whatever is read.
const hostWindow = 128 << 10

// dialBridge connects to the host's bridge.
func dialBridge(ctx context.Context) (relay.Conn, error) {
	c, err := vsock.DialContext(ctx, vsock.Host, protocol.BridgePort, nil)
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		var refused error
		err = raw.Control(func(fd uintptr) {
			refused = unix.SetsockoptUint64(int(fd), unix.AF_VSOCK, unix.SO_VM_SOCKETS_BUFFER_SIZE, hostWindow)
		})
		err = errors.Join(err, refused)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// showShim has the program be found in the guest's root, read-only. What is there
// is replaced: it is of an earlier boot.
func showShim() error {
	if err := os.MkdirAll(filepath.Dir(protocol.ShimPath), 0o755); err != nil {
		return err
	}
	if err := os.Remove(protocol.ShimPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := bindProgram(shim, protocol.ShimPath); err != nil {
		return err
	}
	return unix.Mount("", protocol.ShimPath, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}
