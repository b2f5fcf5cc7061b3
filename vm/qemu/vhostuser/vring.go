//go:build linux

package vhostuser

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func (s *server) queue(i uint32) (*Queue, error) {
	if int64(i) >= int64(len(s.queues)) {
		return nil, fmt.Errorf("queue %d of %d", i, len(s.queues))
	}
	return s.queues[i], nil
}

// start starts the rings that are ready. A ring at an invalid address breaks the device.
func (s *server) start() {
	if s.mem == nil {
		return
	}
	for _, q := range s.queues {
		if !q.startable() {
			continue
		}
		if s.isFresh() {
			s.health.repair()
			s.dev.Reset()
		}
		if err := q.start(s.mem); err != nil {
			q.fail(err)
		}
	}
}

// isFresh reports whether the driver starts from scratch: no ring runs and all start at index 0.
// (QEMU configures all rings before it enables any.) Vhost-user has no other sign of a reset; after
// a pause, rings resume where they stopped. A machine that is paused just when all indexes have
// wrapped to 0 loses its connections.
func (s *server) isFresh() bool {
	for _, q := range s.queues {
		q.mu.Lock()
		old := q.running || q.lastAvail != 0
		q.mu.Unlock()
		if old {
			return false
		}
	}
	return true
}

// vringState handles requests with a ring's index and a number.
func (s *server) vringState(m *message) ([]byte, error) {
	st, err := decode[vringState](m.payload)
	if err != nil {
		return nil, err
	}
	q, err := s.queue(st.Index)
	if err != nil {
		return nil, err
	}
	switch m.req {
	case reqGetVringBase: // also means: stop the ring
		base := q.stop()
		q.setKick(nil)
		return le.AppendUint32(le.AppendUint32(nil, st.Index), uint32(base)), nil
	case reqSetVringEnable:
		q.setEnabled(st.Num != 0)
		s.start()
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running {
		return nil, errors.New("ring is running")
	}
	switch m.req {
	case reqSetVringNum:
		if st.Num == 0 || st.Num > maxQueueSize || st.Num&(st.Num-1) != 0 {
			return nil, fmt.Errorf("ring of %d entries", st.Num)
		}
		q.num = int(st.Num)
	case reqSetVringBase:
		if st.Num > 0xffff {
			return nil, fmt.Errorf("ring index %d", st.Num)
		}
		q.lastAvail = uint16(st.Num)
	}
	return nil, nil
}

// setEnabled allows a ring to run, or stops it. It keeps the kick descriptor, so that a disabled
// ring can be enabled again.
func (q *Queue) setEnabled(on bool) {
	q.mu.Lock()
	q.enabled = on
	q.mu.Unlock()
	if !on {
		q.stop()
	}
}

func (s *server) vringAddr(p []byte) error {
	a, err := decode[vringAddr](p)
	if err != nil {
		return err
	}
	q, err := s.queue(a.Index)
	if err != nil {
		return err
	}
	if a.Flags&1 != 0 {
		return errors.New("dirty logging was not offered")
	}
	q.mu.Lock()
	if !q.running { // only dirty logging changes addresses of a running ring
		q.addr, q.haveAddr = a, true
	}
	q.mu.Unlock()
	s.start()
	return nil
}

// vringFile handles requests with one of a ring's eventfds.
func (s *server) vringFile(m *message) error {
	v, err := decode[uint64](m.payload)
	if err != nil {
		return err
	}
	q, err := s.queue(uint32(v & 0xff))
	if err != nil {
		return err
	}
	fd := -1
	if v&noFD == 0 {
		if fd, err = m.takeFD(); err != nil {
			return err
		}
		// The other side controls the descriptor: blocking on it could hang this process.
		if err := unix.SetNonblock(fd, true); err != nil {
			unix.Close(fd)
			return err
		}
	}
	if m.req == reqSetVringKick {
		if fd < 0 {
			return errors.New("polling mode is not supported")
		}
		kick, err := kickFile(fd)
		if err != nil {
			return err
		}
		q.setKick(kick) // stops the ring first
		s.start()
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &q.call
	if m.req == reqSetVringErr {
		p = &q.errFD
	}
	if *p >= 0 {
		unix.Close(*p)
	}
	*p = fd
	return nil
}

// kickFile makes a file of a non-blocking descriptor, which must support polling.
func kickFile(fd int) (*os.File, error) {
	f := os.NewFile(uintptr(fd), "kick")
	// Waiting for a file that cannot be polled, such as a regular file, could not be interrupted.
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, fmt.Errorf("kick descriptor: %w", err)
	}
	return f, nil
}
