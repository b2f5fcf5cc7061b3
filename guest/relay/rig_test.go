//go:build linux

package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/relay"
	"osaurus-sandbox/internal/timetest"
)

const patience = 30 * time.Second

// rig is a relay with a host that answers connections with the right key.
type rig struct {
	*relay.Relay
	t    *testing.T
	dir  string
	host net.Listener
	key  protocol.BridgeKey
}

func newRig(t *testing.T, answer func(uid uint32, c net.Conn)) *rig {
	t.Helper()
	timetest.NoLeaks(t)
	r := &rig{t: t, dir: t.TempDir(), key: protocol.NewBridgeKey()}
	inner, err := net.Listen("unix", filepath.Join(r.dir, "host"))
	if err != nil {
		t.Fatal(err)
	}
	r.host = protocol.ListenBridge(inner, r.key)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := r.host.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				answer(c.(*protocol.BridgeConn).UID(), c)
			})
		}
	})
	t.Cleanup(func() {
		if err := r.host.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
	})
	r.Relay = relay.New(r.key, func(ctx context.Context) (relay.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", inner.Addr().String())
		if err != nil {
			return nil, err
		}
		return c.(*net.UnixConn), nil
	})
	return r
}

// echo answers with the user and then with everything it receives.
func echo(uid uint32, c net.Conn) {
	fmt.Fprintln(c, uid)
	_, _ = io.Copy(c, c)
}

// room serves a room's socket until the test ends.
func (r *rig) room(name string, uid uint32) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	s, err := r.Room(path, uid, func(int) (string, error) { return "", nil })
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return path
}

func dial(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.UnixConn)
}

// asked returns the user that the host answers.
func asked(c net.Conn) (uid string, err error) {
	line, err := bufio.NewReader(io.LimitReader(c, 64)).ReadString('\n')
	return line, err
}

// dialAs connects on a thread that is another user.
func dialAs(t *testing.T, path string, uid int) net.Conn {
	t.Helper()
	made := make(chan net.Conn, 1)
	go func() {
		defer close(made)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, e := unix.Syscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			t.Error(e)
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		}
		if err != nil {
			t.Error(err)
			return
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		if c, err := net.FileConn(f); err == nil {
			made <- c
		}
	}()
	c, ok := <-made
	if !ok {
		t.Fatal("no connection")
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}
