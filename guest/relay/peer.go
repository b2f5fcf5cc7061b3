//go:build linux

package relay

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/protocol"
)

// sender identifies the program at the other end.
func (s *Socket) sender(c *net.UnixConn) (protocol.Caller, error) {
	p, err := peerOf(c)
	if err != nil {
		return protocol.Caller{}, err
	}
	defer func() { _ = unix.Close(p.pidfd) }()
	if p.cred.Uid != s.uid && p.cred.Uid != 0 {
		return protocol.Caller{}, errors.New("the user may not use this socket")
	}
	plugin, err := p.plugin(s.mark)
	return protocol.Caller{Key: s.relay.key, UID: s.uid, Plugin: plugin}, err
}

// peer is the connecting process, as recorded by the kernel.
type peer struct {
	cred  unix.Ucred
	pidfd int
}

func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	var failed error
	pidfd := -1
	err = raw.Control(func(fd uintptr) {
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed != nil {
			return
		}
		// Kernels before 6.5 give only the pid. A process could be mistaken for another if it ended
		// here and all other pids were used up until its own was reused.
		if pidfd, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); failed == unix.ENOPROTOOPT {
			pidfd, failed = unix.PidfdOpen(int(cred.Pid), 0)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return peer{}, err
	}
	return peer{*cred, pidfd}, nil
}

// plugin returns the plugin that the process belongs to. It fails if the process has ended, since
// its plugin can no longer be known.
func (p peer) plugin(mark func(pid int) (string, error)) (config.PluginID, error) {
	id, err := mark(int(p.cred.Pid))
	if err != nil {
		return "", err
	}
	if err := unix.PidfdSendSignal(p.pidfd, 0, nil, 0); err != nil { // the pid may have been reused
		return "", fmt.Errorf("the process that connected has ended: %w", err)
	}
	if id == "" {
		return "", nil
	}
	return config.ParsePluginID(id)
}
