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

// entryTime is how long a connection may take to say what it is for: the host says so
// at once.
const entryTime = 10 * time.Second

// acceptPause is how long a listener that has failed is left alone: it may lack memory or
// descriptors for a moment, and without it no command would run any more.
const acceptPause = 100 * time.Millisecond

// ServeEntries takes the connections of a listener that begin with an entry, until that is closed:
// lines for commands, and connections that it hands over to the workers of rooms.
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

// enter returns when PID 1 has nothing more to do with a connection. Whoever does not know
// what to say first has no answer.
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
			_ = l.fail(err) // and the line ends
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
