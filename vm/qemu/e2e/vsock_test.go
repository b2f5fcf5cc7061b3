//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"osaurus-sandbox/vm/vmtest/guestport"
)

type halfCloser interface{ CloseWrite() error }

// TestVsock has a guest whose memory is more than one region, but on arm64: a part
// below and a part above 4 GiB. It is only reserved: the guest touches little of it.
func TestVsock(t *testing.T) {
	vm := Start(t, Options{Paths: true, Memory: "4G"})
	t.Logf("guest: %s", vm.MustRun("uname"))

	t.Run("many from host", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				c := vm.Dial(guestport.Echo)
				defer c.Close()
				msg := bytes.Repeat([]byte{byte(i)}, 1000+i*10)
				go writeAll(c, msg)
				if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, msg) {
					t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("many from guest", func(t *testing.T) {
		l := vm.listen(t)
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = io.Copy(c, c)
				}()
			}
		}()
		if _, err := vm.Run("dial", 500); err != nil {
			t.Error(err)
		}
	})
	t.Run("refused in guest", func(t *testing.T) {
		_, err := vm.Run("dial", 1)
		if err == nil || !strings.Contains(err.Error(), "reset") {
			t.Errorf("guest's dial of a closed host port: %v", err)
		}
	})
	t.Run("close delivers", func(t *testing.T) {
		l := vm.listen(t)
		defer l.Close()
		c := vm.Dial(guestport.Relay)
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		const size = 4 << 20 // more than all buffers on the way
		go func() {
			if _, err := c.Write(make([]byte, size)); err != nil {
				t.Error(err)
			}
			c.Close() // with data still on this side
		}()
		time.Sleep(300 * time.Millisecond)
		n, err := io.Copy(io.Discard, b)
		if err != nil || n != size {
			t.Errorf("read %d, %v", n, err)
		}
	})
	t.Run("nettest", func(t *testing.T) {
		l := vm.listen(t)
		defer l.Close()
		// A connection into the guest, which the guest joins to one that it
		// makes to us: both ends are ours, with the guest in between.
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			c1 = vm.Dial(guestport.Relay)
			c2, err = l.Accept()
			return c1, c2, func() { c1.Close(); c2.Close() }, err
		})
	})
	t.Run("pause", func(t *testing.T) {
		pause(t, vm)
	})
	t.Run("reboot", func(t *testing.T) {
		c := vm.Dial(guestport.Echo)
		defer c.Close()
		_, err := vm.Run("reboot")
		t.Logf("control connection: %v", err)
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read of a connection to a rebooted guest: %v", err)
		}
		t.Logf("guest again: %s", vm.MustRun("uname"))
	})
}

// listen listens on the port that the guest connects to.
func (m *VM) listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := m.Vsock.Listen(guestport.RelayBack)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// writeAll writes to a connection and ends that half of it.
func writeAll(c net.Conn, b []byte) {
	_, _ = c.Write(b)
	_ = c.(halfCloser).CloseWrite()
}

// pause stops and continues the machine under traffic. Nothing is lost, and a
// dial waits.
func pause(t *testing.T, vm *VM) {
	qmp := func(command string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := vm.QMP.Do(ctx, command); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	c := vm.Dial(guestport.Echo)
	defer c.Close()
	data := make([]byte, 16<<20)
	_, _ = rand.Read(data)
	go writeAll(c, data)
	got := make([]byte, 0, len(data))
	part := make([]byte, len(data)/4)
	for range 3 {
		n, err := io.ReadFull(c, part)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, part[:n]...)
		qmp("stop")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := vm.Vsock.Dial(ctx, guestport.Echo); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial of a paused guest: %v", err)
		}
		cancel()
		qmp("cont")
	}
	rest, err := io.ReadAll(c)
	if got = append(got, rest...); err != nil || !bytes.Equal(got, data) {
		t.Errorf("echo of %d bytes across pauses gave %d, %v", len(data), len(got), err)
	}
}
