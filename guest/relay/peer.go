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

// sender identifies the program at the other end, for the host.
func (s *Socket) sender(c *net.UnixConn) (protocol.Caller, error) {
	p, err := peerOf(c)
	if err != nil {
		return protocol.Caller{}, err
	}
	defer func() { _ = unix.Close(p.pidfd) }()
	uid, ok := s.userOf(p.cred.Uid)
	if !ok {
		return protocol.Caller{}, errors.New("a stranger")
	}
	plugin, err := p.plugin(s.mark)
	return protocol.Caller{Key: s.relay.key, UID: uid, Plugin: plugin}, err
}

// peer is the process that connected, as the kernel noted it then.
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
		// Kernels before 6.5 say only the number. Whoever ends while it waits here, and has
		// all others taken until another process has it, is that one.
		if pidfd, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); failed == unix.ENOPROTOOPT {
			pidfd, failed = unix.PidfdOpen(int(cred.Pid), 0)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return peer{}, err
	}
	return peer{*cred, pidfd}, nil
}

// plugin is the plugin that the process is of. One that is gone is of none that can be
// known, and an error.
func (p peer) plugin(mark func(pid int) (string, error)) (config.PluginID, error) {
	if mark == nil {
		return "", nil
	}
	id, err := mark(int(p.cred.Pid))
	if err != nil {
		return "", err
	}
	if err := unix.PidfdSendSignal(p.pidfd, 0, nil, 0); err != nil { // the number may be another's by now
		return "", fmt.Errorf("who connected is gone: %w", err)
	}
	if id == "" {
		return "", nil
	}
	return config.ParsePluginID(id)
}
