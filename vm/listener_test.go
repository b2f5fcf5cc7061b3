package vm_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"osaurus-sandbox/vm"
)

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := 0
		l := vm.NewListener(&net.UnixAddr{Name: "port", Net: "unix"}, 2, func() error { released++; return nil })
		var conns [4]net.Conn
		for i := range conns {
			conns[i], _ = net.Pipe()
		}
		if !l.Offer(conns[0]) || !l.Offer(conns[1]) || l.Offer(conns[2]) {
			t.Error("the backlog is not 2")
		}
		if c, err := l.Accept(); c != conns[0] || err != nil {
			t.Errorf("Accept = %v, %v", c, err)
		}
		if err := errors.Join(l.Close(), l.Close()); err != nil || released != 1 {
			t.Errorf("Close = %v, released %d times", err, released)
		}
		if _, err := conns[1].Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Read from a connection that was not accepted = %v", err)
		}
		if l.Offer(conns[3]) {
			t.Error("a closed listener takes a connection")
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close = %v", err)
		}

		l = vm.NewListener(&net.UnixAddr{}, 1, func() error { return nil })
		accepted := make(chan error, 1)
		go func() { _, err := l.Accept(); accepted <- err }()
		synctest.Wait()
		l.Close()
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept during Close = %v", err)
		}
	})
}
