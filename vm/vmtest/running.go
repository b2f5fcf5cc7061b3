package vmtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/net/nettest"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vmtest/guestport"
)

// testRunning tests one machine with disks, shares, network and ports.
func (r *run) testRunning(t *testing.T) {
	cfg := r.image.Config(t)
	cfg.Memory = 4 << 30 // on amd64, in a region below 4 GiB and one above; only reserved
	for i, readOnly := range []bool{false, true, false} {
		path := filepath.Join(t.TempDir(), "disk,comma") // valid in a path
		image := append([]byte(fmt.Sprintf("disk %d", i)), make([]byte, 1<<20-6)...)
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.Disks = append(cfg.Disks, vm.Disk{Path: path, ReadOnly: readOnly})
	}
	cfg.Shares = []vm.Share{
		{Tag: "writable", Path: t.TempDir(), Ownership: r.caps.Ownership[0]},
		{Tag: "read-only", Path: t.TempDir(), ReadOnly: true},
	}
	var w *wire
	w, cfg.NIC = newWire(t)
	if err := os.WriteFile(cfg.ConsoleLog, []byte(lastRun), 0o600); err != nil {
		t.Fatal(err)
	}
	g := New(t, r.Driver, cfg)
	l, err := g.Listen(guestport.RelayBack) // before the start
	if err != nil {
		t.Fatal(err)
	}
	g.Boot()
	cfg.NIC.Close()

	t.Run("Dial", func(t *testing.T) { testDial(t, g) })
	t.Run("Listen", func(t *testing.T) { l = testListen(t, g, l) })
	t.Run("Net", func(t *testing.T) { testNet(t, g, l) })
	t.Run("Disks", func(t *testing.T) { testDisks(t, g) })
	t.Run("Shares", func(t *testing.T) { testShares(t, g) })
	t.Run("Network", func(t *testing.T) { testNetwork(t, g, w) })
	t.Run("Console", func(t *testing.T) { testConsole(t, g) })

	c := echo(t, g, "before the end")
	if err := vm.Shutdown(t.Context(), g, BootTimeout, g.PowerOff); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	_ = c.SetDeadline(time.Now().Add(soon)) // that of the echo may have passed
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("Read from a connection into a machine that has ended = %v", err)
	}
	r.afterwards(t, g, l)
}

func testDial(t *testing.T, g *Guest) {
	began := time.Now()
	_, err := g.Dial(t.Context(), 9999)
	if !errors.Is(err, errRefused) || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Dial of a port without a listener = %v, want unavailable and ECONNREFUSED", err)
	}
	if took := time.Since(began); took > soon {
		t.Errorf("a refusal took %v", took)
	}
	const size = 4 << 20
	c, err := g.Dial(t.Context(), guestport.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := binary.Write(c, binary.LittleEndian, int64(size)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n != size || err != nil {
		t.Errorf("the guest sent %d of %d bytes: %v", n, size, err)
	}
}

func testListen(t *testing.T, g *Guest, l net.Listener) net.Listener {
	if _, err := g.Listen(guestport.RelayBack); fault.KindOf(err) != fault.Rejected {
		t.Errorf("Listen on a taken port = %v, want rejected", err)
	}
	other, err := g.Listen(guestport.RelayBack + 1)
	if err != nil {
		t.Fatal(err)
	}
	const many = 20
	serveEcho(t, l, many)
	if got := g.Must("dial", many); got != fmt.Sprint(many) {
		t.Errorf("the guest made %s connections", got)
	}
	accepted := make(chan error, 1)
	go func() { _, err := other.Accept(); accepted <- err }()
	for _, l := range []net.Listener{l, other} {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close = %v, want net.ErrClosed", err)
		}
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept during Close = %v, want net.ErrClosed", err)
	}
	if _, err := g.Call("dial", 1); err == nil {
		t.Error("the guest connects to a port without a listener")
	}
	if l, err = g.Listen(guestport.RelayBack); err != nil {
		t.Fatalf("Listen on a port that was closed = %v", err)
	}
	serveEcho(t, l, 1)
	g.Must("dial", 1)
	return l
}

// serveEcho answers n connections.
func serveEcho(t *testing.T, l net.Listener, n int) {
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	serving.Go(func() {
		for range n {
			c, err := l.Accept()
			if err != nil {
				t.Errorf("Accept: %v", err)
				return
			}
			serving.Go(func() {
				defer c.Close()
				if a := c.RemoteAddr(); a == nil || a.String() == c.LocalAddr().String() {
					t.Errorf("the guest's address is %v", a)
				}
				// The guest sends one short piece. Not every driver reports its end.
				b := make([]byte, 64)
				k, err := c.Read(b)
				if err == nil {
					_, err = c.Write(b[:k])
				}
				if err != nil {
					t.Errorf("echo to the guest: %v", err)
				}
			})
		}
	})
}

// testNet joins a dialled and an accepted connection in the guest and tests both with package
// nettest. A driver that dials twice, since the guest is slow to answer, makes a connection that
// nobody waits for.
func testNet(t *testing.T, g *Guest, l net.Listener) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		if c1, err = g.Dial(t.Context(), guestport.Relay); err != nil {
			return nil, nil, nil, err
		}
		var port uint32
		if err = binary.Read(c1, binary.LittleEndian, &port); err == nil {
			c2, err = l.Accept()
		}
		for err == nil && c2.RemoteAddr().(*vsock.Addr).Port != port {
			c2.Close()
			c2, err = l.Accept()
		}
		if err != nil {
			c1.Close()
			return nil, nil, nil, err
		}
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

func testDisks(t *testing.T, g *Guest) {
	for i := range g.Config.Disks {
		if got, want := g.Must("readat", fmt.Sprintf("/dev/vd%c", 'a'+i), 0, 6), fmt.Sprintf("disk %d", i); got != want {
			t.Errorf("disk %d begins with %q, want %q", i, got, want)
		}
	}
	g.Must("patch", "/dev/vda", 4096, "written-by-guest")
	b, err := os.ReadFile(g.Config.Disks[0].Path)
	if err != nil || !bytes.HasPrefix(b[4096:], []byte("written-by-guest")) {
		t.Errorf("the guest's write to a disk is not in its image: %q, %v", b[4096:4112], err)
	}
	if _, err := g.Call("patch", "/dev/vdb", 4096, "written-by-guest"); err == nil {
		t.Error("the guest writes to a read-only disk")
	}
	if b, err := os.ReadFile(g.Config.Disks[1].Path); err != nil || bytes.Contains(b, []byte("written")) {
		t.Errorf("the image of a read-only disk has changed (%v)", err)
	}
}

func testShares(t *testing.T, g *Guest) {
	for _, s := range g.Config.Shares {
		if err := os.WriteFile(filepath.Join(s.Path, "from-host"), []byte(s.Tag), 0o644); err != nil {
			t.Fatal(err)
		}
		dir := "/mnt/" + s.Tag
		g.Must("mount", s.Tag, dir)
		if got := g.Must("read", dir+"/from-host"); got != s.Tag {
			t.Errorf("share %s has a file with %q", s.Tag, got)
		}
		_, err := g.Call("write", dir+"/from-guest", "hello")
		b, gone := os.ReadFile(filepath.Join(s.Path, "from-guest"))
		switch {
		case s.ReadOnly && (err == nil || gone == nil):
			t.Errorf("the guest writes %q to a read-only share (%v)", b, err)
		case !s.ReadOnly && string(b) != "hello":
			t.Errorf("the guest's write to a share: %v; the host sees %q, %v", err, b, gone)
		}
	}
}

// lastRun is the console log of the previous machine.
const lastRun = "what the machine before this one said"

func testConsole(t *testing.T, g *Guest) {
	log := g.Config.ConsoleLog
	if b, err := os.ReadFile(log + ".1"); string(b) != lastRun {
		t.Errorf("the log of the machine before: %q, %v", b, err)
	}
	b, err := os.ReadFile(log)
	if err != nil || !bytes.Contains(b, []byte("guest: ready")) {
		t.Errorf("the console's log: %v\n%s", err, b)
	}
	// More than all buffers on the way must not block the guest.
	g.Must("print", 256, strings.Repeat("flood ", 150))
	for deadline := time.Now().Add(soon); !bytes.Contains(b, []byte("flood flood\r\n")); time.Sleep(50 * time.Millisecond) {
		if b, err = os.ReadFile(log); err != nil || time.Now().After(deadline) {
			t.Fatalf("the flood is not in the console's log: %v", err)
		}
	}
}
