package control

import (
	"net"

	"golang.org/x/sys/unix"
)

// peer is the user at the other end of a connection.
func peer(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
