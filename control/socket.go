package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	socketName = "sandbox.sock"
	// maxSocketPath is the shortest limit of the systems this runs on: macOS
	// has room for 104 bytes with the closing zero, Linux for 108.
	maxSocketPath = 103
)

// Socket returns the path of a home's socket, for clients. In a home with a long path,
// run/sandbox.sock is a link to the socket.
func Socket(home config.Home) (string, error) {
	path := filepath.Join(home.Run(), socketName)
	target, err := os.Readlink(path)
	switch {
	case err == nil:
		return target, private(filepath.Dir(target))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EINVAL):
		return path, nil
	}
	return "", fault.New(fault.Unavailable, "find socket", path, err).Advise("Make " + home.Run() + " readable for you, or set " + config.HomeVariable + " to another home.")
}

// listen listens on the home's socket, and replaces one of a daemon that was killed. The
// caller holds the home's lock. Remove removes the socket.
func listen(home config.Home) (_ net.Listener, remove func() error, err error) {
	const op = "make socket"
	run, err := home.Make(home.Run())
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join(run, socketName)
	if err := unlink(name); err != nil {
		return nil, nil, fault.New(fault.Unavailable, op, name, err).Advise("Make the folder writable for you, or set " + config.HomeVariable + " to another.")
	}
	path := name
	if len(path) > maxSocketPath {
		if path, err = goAround(name); err != nil {
			return nil, nil, fault.New(fault.Unavailable, op, name, err).
				Advise(fmt.Sprintf("Set TMPDIR to a short path, or %s to one that is at least %d bytes shorter.", config.HomeVariable, len(name)-maxSocketPath))
		}
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, op, path, errors.Join(err, unlink(name))).
			Advise("Check that its disk has room and takes sockets, or set " + config.HomeVariable + " to a home on another.")
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // remove does, and removes a link too
	return ownOnly{l}, func() error { return unlink(name) }, nil
}

// goAround makes a private folder with a short path for the socket, and name a link to the
// socket. Other users cannot guess the folder's name, and clients find it by the home.
func goAround(name string) (string, error) {
	dir, err := os.MkdirTemp("", "osaurus-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, socketName)
	if err := os.Symlink(path, name); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return path, nil
}

// unlink removes a socket. If it is a link, it removes the folder of its target too.
func unlink(name string) error {
	if target, err := os.Readlink(name); err == nil {
		dir := filepath.Dir(target)
		if private(dir) == nil && filepath.Base(target) == socketName {
			_ = os.Remove(target)
			_ = os.Remove(dir)
		}
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// private returns an error if a folder is not accessible to this user alone.
func private(dir string) error {
	const op = "check socket's folder"
	info, err := os.Lstat(dir)
	if err != nil {
		return fault.New(fault.Unavailable, op, dir, err).Advise("If somebody removed it, end the daemon of this home: the next one makes a new one.")
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(owner.Uid) != os.Getuid() {
		return fault.Newf(fault.Rejected, op, dir, "it is not a folder that is yours alone").
			Advise("See whose it is, and do not use it. End the daemon of this home: the next one makes a new one.")
	}
	return nil
}

// ownOnly accepts connections of this user and of root, whatever the socket's mode is.
type ownOnly struct{ net.Listener }

func (l ownOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := peer(conn.(*net.UnixConn)); err == nil && (uid == os.Getuid() || uid == 0) {
			return known{conn, uid}, nil
		}
		_ = conn.Close()
	}
}

// peer returns the user at the other end of a connection.
func peer(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		var other uint32
		other, err = peerUID(fd)
		uid = int(other)
	})
	return uid, errors.Join(failed, err)
}

// known is a connection with the user at its other end.
type known struct {
	net.Conn
	uid int
}
