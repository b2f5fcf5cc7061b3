//go:build darwin || vzstandin

package child_test

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/child"
	"osaurus-sandbox/vm/vmtest"
	"osaurus-sandbox/vm/vmtest/guestport"
	"osaurus-sandbox/vm/vz"
)

const asChild = "OSAURUS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		if err := child.Serve(&vz.Driver{}); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// newDriver returns a driver whose children are this program. Each is sent to the channel.
func newDriver(started chan<- *exec.Cmd) *child.Driver {
	return &child.Driver{Driver: &vz.Driver{}, Command: func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asChild+"=1")
		cmd.Stderr = os.Stderr
		if started != nil {
			started <- cmd
		}
		return cmd
	}}
}

func arch() vm.Arch {
	if vm.HostArch() == vm.AMD64 && strings.HasPrefix(os.Getenv("HOME"), "/Users/") {
		return vm.AMD64 // an Intel Mac
	}
	return vm.ARM64
}

func TestConformance(t *testing.T) {
	vmtest.Run(t, vmtest.Suite{Driver: newDriver(nil), Arch: arch()})
}

// A framework that throws ends the child. The machine has failed, and this process goes on.
func TestCrash(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // what the killed process leaves
	started := make(chan *exec.Cmd, 1)
	g := vmtest.Boot(t, newDriver(started), vmtest.BuildImage(t, arch()).Config(t))
	c, err := g.Dial(t.Context(), guestport.Echo)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := (<-started).Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Done():
	case <-time.After(vmtest.BootTimeout):
		t.Fatal("the machine does not end")
	}
	if err := g.Err(); fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "its process has failed") || !strings.Contains(fault.AdviceOf(err), "DiagnosticReports") {
		t.Errorf("Err = %v", err)
	}
	if s := g.State(); s != vm.Failed {
		t.Errorf("it is %s", s)
	}
	if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a connection ends with %v", err)
	}
}

// What the framework reports while the machine runs reaches the parent.
func TestWarnings(t *testing.T) {
	t.Setenv("VZ_STANDIN_RUDE", "disconnect")
	cfg := vmtest.BuildImage(t, arch()).Config(t)
	_, cfg.NIC = vmtest.NewWire(t)
	g := vmtest.New(t, newDriver(nil), cfg)
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	timetest.Eventually(t, "the parent gets a warning", func() bool {
		return strings.Contains(strings.Join(g.Warnings(), ""), "disconnected the network")
	})
}

// BenchmarkDial compares a dial through the child with one of the driver alone.
func BenchmarkDial(b *testing.B) {
	for _, bb := range []struct {
		name   string
		driver vm.Driver
	}{{"alone", &vz.Driver{}}, {"child", newDriver(nil)}} {
		b.Run(bb.name, func(b *testing.B) {
			g := vmtest.Boot(b, bb.driver, vmtest.BuildImage(b, arch()).Config(b))
			for b.Loop() {
				c, err := g.Dial(b.Context(), guestport.Echo)
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}
