package boot

import (
	"errors"
	"net"
	"sync"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/vm"
)

// bridgeServer serves the bridge for one boot. It accepts only connections with that boot's
// key.
type bridgeServer struct {
	key      protocol.BridgeKey
	listener net.Listener
	done     chan error
	once     sync.Once
	err      error // set by once
}

// serveBridge starts the bridge on a machine's port, or returns nil without one.
// It must run before the guest is greeted, so that the first program is answered.
func serveBridge(m vm.Machine, bridge Bridge) (*bridgeServer, error) {
	if bridge == nil {
		return nil, nil
	}
	inner, err := m.Listen(protocol.BridgePort)
	if err != nil {
		return nil, err
	}
	s := &bridgeServer{key: protocol.NewBridgeKey(), done: make(chan error, 1)}
	s.listener = protocol.ListenBridge(inner, s.key)
	go func() { s.done <- bridge.Serve(s.listener) }()
	return s, nil
}

// close stops the bridge and waits for it. It may be called again, and on nil.
func (s *bridgeServer) close() error {
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
