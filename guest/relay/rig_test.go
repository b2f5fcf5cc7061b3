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
)

const patience = 30 * time.Second

// rig is a relay on this host, and a host behind it that echoes what comes with the
// right preface, after the number of the user.
type rig struct {
	*relay.Relay
	t    *testing.T
	dir  string
	host net.Listener
	key  protocol.BridgeKey
}

func newRig(t *testing.T, answer func(uid uint32, c net.Conn)) *rig {
	t.Helper()
	leftovers(t)
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

// echo says who is there, and then what it is told.
func echo(uid uint32, c net.Conn) {
	fmt.Fprintln(c, uid)
	_, _ = io.Copy(c, c)
}

// leftovers fails a test after which there are more descriptors or goroutines.
func leftovers(t *testing.T) {
	t.Helper()
	count := func() (files, goroutines int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list), runtime.NumGoroutine()
	}
	files, goroutines := count()
	t.Cleanup(func() {
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			f, g := count()
			if f <= files && g <= goroutines {
				return
			}
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d descriptors and %d goroutines became %d and %d\n%s", files, goroutines, f, g, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// room serves a room's socket until the test ends.
func (r *rig) room(name string, uid uint32) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	s, err := r.Room(path, uid, nil)
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

// asked says whether a program is answered, and as whom.
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
		runtime.LockOSThread() // never unlocked: the thread ends with it
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
