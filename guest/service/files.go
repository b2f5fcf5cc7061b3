//go:build linux

package service

import (
	"context"
	"net"
	"time"

	"osaurus-sandbox/guest/entry"
	"osaurus-sandbox/guest/files"
)

// entryTime is how long a connection may take to say whose files are meant: the host says so
// at once.
const entryTime = 10 * time.Second

// ServeFiles hands the connections of a listener over to the workers of the rooms that they
// are for, until that is closed.
func (s *Service) ServeFiles(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			if err := s.enter(c); err != nil {
				files.Refuse(c, err)
			}
		}()
	}
}

// enter hands a connection over, if it begins as it must.
func (s *Service) enter(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(entryTime)); err != nil {
		return err
	}
	e, err := entry.Read(c)
	if err != nil {
		return err
	}
	if err := s.admit(e.Key); err != nil {
		return err
	}
	return s.files.Hand(context.Background(), e.User, c)
}

// fileRoom finds where the files of a user are touched.
func (s *Service) fileRoom(ctx context.Context, user string) (files.Room, error) {
	r, err := s.find(ctx, user)
	if err != nil {
		return files.Room{}, err
	}
	return files.Room{Place: r.HiddenPlace(), Env: r.Environment(false), Dead: r.Dead(), Program: s.rooms.Program()}, nil
}
