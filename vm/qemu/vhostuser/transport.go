//go:build linux

package vhostuser

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// message is one request from the front end.
type message struct {
	req     request
	flags   uint32
	payload []byte
	fds     []int
}

// takeFD returns the message's only descriptor. The caller must close it.
func (m *message) takeFD() (int, error) {
	if len(m.fds) != 1 {
		return -1, fmt.Errorf("%d descriptors instead of one", len(m.fds))
	}
	fd := m.fds[0]
	m.fds = nil
	return fd, nil
}

func (m *message) closeFDs() {
	for _, fd := range m.fds {
		unix.Close(fd)
	}
	m.fds = nil
}

func (s *server) read() (_ *message, err error) {
	var hdr [headerSize]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	// Descriptors arrive with the first byte of a message.
	n, oobn, flags, _, err := s.conn.ReadMsgUnix(hdr[:], oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	m := &message{}
	defer func() {
		if err != nil {
			m.closeFDs()
		}
	}()
	cms, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	for i := range cms {
		if fds, err := unix.ParseUnixRights(&cms[i]); err == nil {
			m.fds = append(m.fds, fds...)
		}
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return nil, errors.New("too many descriptors in one message")
	}
	if _, err := io.ReadFull(s.conn, hdr[n:]); err != nil {
		return nil, err
	}
	m.req, m.flags = request(le.Uint32(hdr[:])), le.Uint32(hdr[4:])
	size := le.Uint32(hdr[8:])
	if m.flags&3 != flagVersion || m.flags&flagReply != 0 || size > maxPayload {
		return nil, fmt.Errorf("bad header of %v: flags %#x, size %d", m.req, m.flags, size)
	}
	m.payload = make([]byte, size)
	if _, err := io.ReadFull(s.conn, m.payload); err != nil {
		return nil, err
	}
	return m, nil
}

func (s *server) reply(req request, payload []byte) error {
	b := make([]byte, headerSize, headerSize+len(payload))
	le.PutUint32(b, uint32(req))
	le.PutUint32(b[4:], flagVersion|flagReply)
	le.PutUint32(b[8:], uint32(len(payload)))
	_, err := s.conn.Write(append(b, payload...))
	return err
}
