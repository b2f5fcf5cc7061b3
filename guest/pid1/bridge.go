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

	"osaurus-sandbox/guest/hatch"
	"osaurus-sandbox/guest/preface"
	"osaurus-sandbox/guest/relay"
)

// shim is the program that asks the bridge, where the guest keeps it.
const shim = own + "/host"

// openBridge lets programs of the guest itself ask the host, if it serves a bridge, and
// rooms have ways of their own.
func (m *machine) openBridge(key []byte) {
	if len(key) != preface.KeySize {
		return // none: the service has checked it
	}
	r := relay.New(preface.Key(key), func(ctx context.Context) (relay.Conn, error) {
		return vsock.DialContext(ctx, vsock.Host, preface.Port, nil)
	})
	m.relay.Store(r)
	if _, err := r.Guest(hatch.Socket); err != nil {
		m.warn("serve the bridge", err)
	}
}

// showShim has the program be found in the guest's root, read-only. What is there
// is replaced: it is of an earlier boot.
func showShim() error {
	if err := os.MkdirAll(filepath.Dir(hatch.Program), 0o755); err != nil {
		return err
	}
	if err := os.Remove(hatch.Program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := bindProgram(shim, hatch.Program); err != nil {
		return err
	}
	return unix.Mount("", hatch.Program, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}
