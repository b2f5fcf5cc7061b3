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

// shim is the path of the bridge client in the guest.
const shim = own + "/host"

// openBridge starts the relay to the host's bridge, if the host serves one, and opens the socket
// for programs outside of rooms.
func (m *machine) openBridge(key []byte) {
	if len(key) != protocol.KeySize {
		return // no bridge; the service has checked other lengths
	}
	r := relay.New(protocol.BridgeKey(key), dialBridge)
	m.relay.Store(r)
	if _, err := r.Guest(protocol.BridgeSocket); err != nil {
		m.warn("serve the bridge", err)
	}
}

// hostWindow is the kernel's receive buffer for a connection to the bridge: half the default, to
// save memory. With a quarter, the kernel would send a credit update for every read.
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

// showShim mounts the bridge client in the guest's root, read-only. It replaces a file from an
// earlier boot.
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
