//go:build vzstandin && linux

package vz

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/Code-Hex/vz/v3"
	"github.com/mdlayher/vsock"

	"osaurus-sandbox/vm"
)

// Parts of the stand-in, which exports only what vz does.

//go:linkname attachDevice github.com/Code-Hex/vz/v3.(*VirtioSocketDevice).connect
func attachDevice(d *vz.VirtioSocketDevice, m vm.Machine) error

//go:linkname beRude github.com/Code-Hex/vz/v3.(*VirtualMachine).beRude
func beRude(v *vz.VirtualMachine)

// enough is more than anything here takes on a busy host.
const enough = time.Minute

// echoes is a machine whose guest returns what it gets. It boots nothing.
type echoes struct {
	vm.Machine
	done chan struct{}
}

func (e *echoes) Done() <-chan struct{} { return e.done }

func (e *echoes) Dial(context.Context, uint32) (net.Conn, error) {
	ours, guest := net.Pipe()
	go func() {
		b := make([]byte, 16)
		n, _ := guest.Read(b)
		_, _ = guest.Write(b[:n])
		guest.Close()
	}()
	return addressed{ours}, nil
}

type addressed struct{ net.Conn }

func (addressed) LocalAddr() net.Addr { return &vsock.Addr{ContextID: vsock.Host, Port: 77} }

func newEchoes(t *testing.T) (*switchboard, *echoes) {
	t.Helper()
	if err := giveDuplicates(); err != nil {
		t.Fatal(err)
	}
	d, e := new(vz.VirtioSocketDevice), &echoes{done: make(chan struct{})}
	if err := attachDevice(d, e); err != nil {
		t.Fatal(err)
	}
	s := newSwitchboard(d)
	t.Cleanup(func() { s.Close() })
	return s, e
}

func echo(t *testing.T, s *switchboard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	c, err := s.Dial(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hi")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 2)); n != 2 {
		t.Fatalf("the echo has %d bytes: %v", n, err)
	}
}

func openFiles() int {
	names, _ := os.ReadDir("/dev/fd")
	return len(names)
}

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(enough); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// The stand-in panics when a connection's descriptor is closed twice. None may stay open.
func TestDescriptors(t *testing.T) {
	s, _ := newEchoes(t)
	echo(t, s) // opens what stays open, such as the poller
	eventually(t, "the framework keeps its descriptor", func() bool { n := openFiles(); time.Sleep(10 * time.Millisecond); return n == openFiles() })
	before := openFiles()
	for range 30 {
		echo(t, s)
	}
	eventually(t, "descriptors leak", func() bool { return openFiles() <= before })
}

// The framework does not answer every other attempt to connect, until it answers after the
// stop that all have succeeded.
func TestUnanswered(t *testing.T) {
	t.Setenv("VZ_STANDIN_RUDE", "mute")
	for _, closed := range []bool{false, true} { // before the answers
		s, e := newEchoes(t)
		before := openFiles()
		for range 2 {
			echo(t, s)
		}
		if closed {
			s.Close()
		}
		close(e.done)
		eventually(t, "the late connections leak", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.pending == 0 && openFiles() <= before
		})
	}
}

func TestDisconnectedNetwork(t *testing.T) {
	t.Setenv("VZ_STANDIN_RUDE", "disconnect")
	log := filepath.Join(t.TempDir(), "console.log")
	line, err := newSerial(log)
	if err != nil {
		t.Fatal(err)
	}
	defer line.close()
	config, err := vz.NewVirtualMachineConfiguration(&vz.LinuxBootLoader{}, 1, 512<<20)
	if err != nil {
		t.Fatal(err)
	}
	apple, err := vz.NewVirtualMachine(config)
	if err != nil {
		t.Fatal(err)
	}
	disconnects, err := apple.NetworkDeviceAttachmentWasDisconnected()
	if err != nil {
		t.Fatal(err)
	}
	config.SetNetworkDevicesVirtualMachineConfiguration([]*vz.VirtioNetworkDeviceConfiguration{{}})
	m := &machine{name: "m", apple: apple, serial: line, disconnects: disconnects}
	m.Base = vm.NewBase("m", m, nil, "")
	go m.follow(nil) // until the process ends
	beRude(apple)
	eventually(t, "the console does not say that the network is disconnected", func() bool {
		b, _ := os.ReadFile(log)
		return strings.Contains(string(b), "Restart the sandbox") && strings.Contains(strings.Join(m.Warnings(), ""), "Restart the sandbox")
	})
}
