//go:build linux

package qemu

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
	"osaurus-sandbox/vm/qemu/vhostuser"
	"osaurus-sandbox/vm/qemu/virtiofs"
	"osaurus-sandbox/vm/qemu/vsock"
)

// backend is a virtio device that this process serves to QEMU.
type backend struct {
	device
	name     string // for logs
	argument string // QEMU device name and properties
}

// device is a virtio device that can be closed.
type device interface {
	vhostuser.Device
	io.Closer
}

// newBackends creates a machine's vsock device and a device for each share. It also returns the
// vsock device separately.
func newBackends(cfg *vm.Config, opts fs.Options) ([]backend, *vsock.Device, error) {
	socket := vsock.New(vm.GuestCID)
	all := []backend{{socket, "vsock", "vhost-user-vsock-pci"}}
	for _, s := range cfg.Shares {
		d, err := virtiofs.New(s, opts)
		if err != nil {
			closeBackends(all)
			return nil, nil, err
		}
		all = append(all, backend{d, "share " + s.Tag, fmt.Sprintf("vhost-user-fs-pci,tag=%s,queue-size=%d", s.Tag, fileQueue)})
	}
	return all, socket, nil
}

// serve serves the device until QEMU hangs up or the context ends.
func (b backend) serve(ctx context.Context, conn *net.UnixConn, log *slog.Logger) {
	log = log.With("device", b.name)
	if err := vhostuser.Serve(ctx, conn, b.device, log); err != nil {
		log.Error("device ended", "err", err)
	}
}

func closeBackends(all []backend) {
	for _, b := range all {
		_ = b.Close()
	}
}
