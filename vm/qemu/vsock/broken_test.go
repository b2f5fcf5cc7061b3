//go:build linux

package vsock

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm/qemu/vhostuser"
)

// TestBrokenDriver breaks the ring under open connections.
func TestBrokenDriver(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	c := dial(t, d)
	defer c.Close()
	g.do(func() { g.tx.SetAvail(0x7000) })
	_, err := c.Read(make([]byte, 1))
	wantErrno(t, "read from a broken device", err, errReset)
	g.reboot()
	dial(t, d).Close()
}

// TestFaultyMemory breaks the device in the middle of a packet whose memory has no page. Connections
// must still end.
func TestFaultyMemory(t *testing.T) {
	d := New(guestCID)
	g := startGuest(t, d)
	c := dial(t, d)
	h := header{srcCID: guestCID, dstCID: hostCID, srcPort: echoPort, dstPort: c.(*Conn).key.host, typ: typeStream, op: opRW, len: 1, bufAlloc: guestBuffer}
	b, data := h.bytes(), faulty(t)
	d.mu.Lock()
	q := d.rx
	d.mu.Unlock()
	q.Guard(func() {
		d.packet(&vhostuser.Chain{Out: [][]byte{b, data}, OutLen: headerLen + len(data)})
		t.Error("the memory did not fault")
	})
	within(t, "the read", func() {
		_, err := c.Read(make([]byte, 1))
		wantErrno(t, "read from a broken device", err, errReset)
		c.Close()
	})
	g.reboot()
	dial(t, d).Close()
	within(t, "the device's end", func() { d.Close() })
	atRest(t, d)
}

// faulty returns memory whose file has shrunk, so that an access raises SIGBUS.
func faulty(t *testing.T) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	return b
}

// within fails if f does not end.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(timetest.Limit):
		t.Fatalf("%s does not end", what)
	}
}
