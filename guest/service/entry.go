//go:build linux

package service

import (
	"context"
	"errors"
	"net"
	"time"

	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/protocol"
)

// entryTime bounds the wait for a connection's entry, which the host sends at once.
const entryTime = 10 * time.Second

// acceptPause is the pause after a failed accept. Memory or descriptors may be short for a moment,
// and giving up would end all commands.
const acceptPause = 100 * time.Millisecond

// ServeEntries serves connections that begin with an entry, until the listener is closed. They are
// lines for commands, or connections for the workers of rooms.
func (s *Service) ServeEntries(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		go func() {
			defer c.Close()
			s.enter(c)
		}()
	}
}

// enter serves one connection. It closes a connection with an invalid entry without an answer.
func (s *Service) enter(c net.Conn) {
	if c.SetReadDeadline(time.Now().Add(entryTime)) != nil {
		return
	}
	e, err := protocol.ReadDataHeader(c)
	if err != nil || c.SetReadDeadline(time.Time{}) != nil {
		return
	}
	err = s.admit(e.Key)
	if e.User == "" {
		l := &line{conn: c}
		if err != nil {
			_ = l.fail(err) // then the line ends
			return
		}
		l.serve(s)
		return
	}
	if err == nil {
		err = s.files.Hand(context.Background(), e.User, c)
	}
	if err != nil {
		files.Refuse(c, err)
	}
}
