package launch

import (
	"errors"
	"net"
	"sync"

	"osaurus-sandbox/guest/preface"
	"osaurus-sandbox/vm"
)

// served is the bridge of one boot: its port of the machine, and the key without
// which nothing of the guest gets an answer.
type served struct {
	key      preface.Key
	listener net.Listener
	done     chan error
	once     sync.Once
	err      error // what came of once
}

// serve has a bridge answer on a machine's port. It comes before the guest is
// greeted, so that the first program in it is answered. Without a bridge it is nil.
func serve(m vm.Machine, bridge Bridge) (*served, error) {
	if bridge == nil {
		return nil, nil
	}
	inner, err := m.Listen(preface.Port)
	if err != nil {
		return nil, err
	}
	s := &served{key: preface.NewKey(), done: make(chan error, 1)}
	s.listener = preface.Listen(inner, s.key)
	go func() { s.done <- bridge.Serve(s.listener) }()
	return s, nil
}

// close ends the bridge of the boot. It returns when nobody serves any more. It
// may be called more than once, and of none.
func (s *served) close() error {
	if s == nil {
		return nil
	}
	s.once.Do(func() {
		s.err = s.listener.Close()
		if err := <-s.done; !errors.Is(err, net.ErrClosed) {
			s.err = errors.Join(s.err, err)
		}
	})
	return s.err
}
