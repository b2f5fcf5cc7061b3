//go:build linux

package room

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/relay"
	"osaurus-sandbox/internal/fault"
)

// olderSocket is the socket's former path in guests of the desktop app. Programs written for those use it.
const olderSocket = "/tmp/osaurus-bridge.sock"

// bridgeFiles are a room's socket and token for the bridge. They are in a guest folder that is
// mounted into the room: programs there cannot replace them, and the guest writes them without
// opening a path in the room.
type bridgeFiles struct {
	socket *relay.Socket // nil if the host serves no bridge
	token  []byte
}

// bridgeSocket and bridgeTokens are the paths of the socket and of the token folder.
func bridgeSocket(files string) string { return filepath.Join(files, "bridge.sock") }
func bridgeTokens(files string) string { return filepath.Join(files, "osaurus") }

// openBridge creates the bridge files, before the room is built.
func (r *Room) openBridge(o Options, token []byte) (err error) {
	by := o.Relay()
	if by == nil {
		return nil
	}
	tokens := bridgeTokens(r.files)
	// Programs can open the token by name but cannot list the folder.
	const passable = 0o711
	if err := errors.Join(os.RemoveAll(tokens), os.Mkdir(tokens, passable), os.Chmod(tokens, passable)); err != nil {
		return fault.New(fault.Unavailable, "make room", r.spec.User, err)
	}
	if r.bridgeFiles.socket, err = by.Room(bridgeSocket(r.files), r.spec.Uid, process.Mark); err != nil {
		return err
	}
	return r.setToken(token)
}

// close ends the connections of the room's programs to the bridge.
func (o bridgeFiles) close() {
	if o.socket != nil {
		_ = o.socket.Close()
	}
}

// setToken replaces the token of the room's programs. An empty token removes it.
func (r *Room) setToken(token []byte) error {
	if r.bridgeFiles.socket == nil || bytes.Equal(token, r.bridgeFiles.token) {
		return nil
	}
	path := filepath.Join(bridgeTokens(r.files), r.spec.User+".token")
	var err error
	if len(token) == 0 {
		err = os.Remove(path)
	} else {
		err = r.writeToken(path, token)
	}
	if err != nil {
		return fault.New(fault.Execution, "set the room's token", r.spec.User, err)
	}
	r.bridgeFiles.token = token
	return nil
}

// writeToken replaces the token file. It changes the owner before it writes the token.
func (r *Room) writeToken(path string, token []byte) error {
	fresh := path + ".new"
	_ = os.Remove(fresh)
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = f.Chown(int(r.spec.Uid), int(r.spec.Uid))
	if err == nil {
		_, err = f.Write(token)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// bridge mounts the bridge's socket, the token folder and the bridge client.
func (b *builder) bridge() error {
	if b.Bridge {
		if err := b.showFile(bridgeSocket(b.Files), protocol.BridgeSocket, sealed); err != nil {
			return err
		}
		if err := b.bindFolder(bridgeTokens(b.Files), protocol.TokenDir, sealed); err != nil {
			return err
		}
		if err := b.link(protocol.BridgeSocket, olderSocket); err != nil && !errors.Is(err, fs.ErrExist) { // /tmp can be an earlier room's
			b.warn("cannot link %s: %v", olderSocket, err)
		}
	}
	if err := b.showFile(b.Shim, protocol.ShimPath, quiet|unix.MOUNT_ATTR_RDONLY); err != nil {
		b.warn("cannot mount %s, using the layer's file: %v", protocol.ShimPath, err)
	}
	return nil
}

// link makes a symbolic link in the new root.
func (b *builder) link(to, path string) error {
	dir, err := openBeneath(b.root, filepath.Dir(path)[1:], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Symlinkat(to, dir, filepath.Base(path))
}
