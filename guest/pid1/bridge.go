//go:build linux

package pid1

import (
	"context"

	"github.com/mdlayher/vsock"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/relay"
)

// shim is the path of the bridge client in the guest.
const shim = own + "/host"

// hostWindow is the kernel's receive buffer for a connection to the bridge: half the default, to
// save memory. With a quarter, the kernel would send a credit update for every read.
const hostWindow = 128 << 10

// dialBridge connects to the host's bridge.
func dialBridge(ctx context.Context) (relay.Conn, error) {
	c, err := vsock.DialContext(ctx, vsock.Host, protocol.BridgePort, nil)
	if err != nil {
		return nil, err
	}
	if err := protocol.SetWindow(c, hostWindow); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
