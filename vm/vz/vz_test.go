//go:build darwin || vzstandin

package vz_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vmtest"
	"osaurus-sandbox/vm/vz"
)

func TestConformance(t *testing.T) {
	vmtest.Run(t, vmtest.Suite{
		Driver: &vz.Driver{}, Arch: vz.NativeArch(), HostFromGuest: hostFromGuest,
		// Flaws of vz v3.7.1: see listener, and the channels of each machine.
		Lasting: []string{
			"vz/v3.(*VirtioSocketListener).AcceptVirtioSocketConnection",
			"go-infinity-channel.(*Channel[...]).infiniteBuffer",
		},
	})
}

// The framework says nothing of a panic; the console does.
func TestPanicIsHeard(t *testing.T) {
	g := vmtest.Boot(t, &vz.Driver{}, vmtest.BuildImage(t, vz.NativeArch()).Config(t))
	go g.Call("panic")
	select {
	case <-g.Done():
	case <-time.After(vmtest.BootTimeout):
		t.Fatal("a machine whose kernel panicked does not end")
	}
	if err := g.Err(); fault.KindOf(err) != fault.Execution || fault.AdviceOf(err) == "" || !strings.Contains(err.Error(), "sysrq triggered crash") {
		t.Errorf("Err = %v, want execution_error that quotes the console", err)
	}
	if s := g.State(); s != vm.Failed {
		t.Errorf("a machine that panicked is %s", s)
	}
}

// Machines of one state directory are one machine; without one each is new.
func TestIdentity(t *testing.T) {
	image := vmtest.BuildImage(t, vz.NativeArch())
	identify := func(dir string) string {
		cfg := image.Config(t)
		cfg.StateDir = dir
		vmtest.New(t, &vz.Driver{}, cfg)
		b, err := os.ReadFile(filepath.Join(dir, "machine-identifier"))
		if err != nil && dir != "" {
			t.Fatal(err)
		}
		return string(b)
	}
	dir := t.TempDir()
	first := identify(dir)
	if first == "" || identify(dir) != first {
		t.Error("a machine does not keep its identifier")
	}
	if identify(t.TempDir()) == first {
		t.Error("two machines have one identifier")
	}
	for _, damaged := range []string{"", "bplist00 and no more"} {
		if err := os.WriteFile(filepath.Join(dir, "machine-identifier"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := identify(dir); got == damaged || got == first {
			t.Errorf("the identifier %q became %q", damaged, got)
		}
	}
	identify("")
}

func TestListenerHasManners(t *testing.T) {
	g := vmtest.New(t, &vz.Driver{}, vmtest.BuildImage(t, vz.NativeArch()).Config(t))
	for range 3 { // the port is free again each time
		l, err := g.Listen(1)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() { _, err := l.Accept(); accepted <- err }()
		time.Sleep(10 * time.Millisecond) // for it to wait
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Errorf("Close = %v", err)
		}
		select {
		case <-accepted:
		case <-time.After(30 * time.Second):
			t.Fatal("Accept does not return after Close")
		}
	}
}

func TestCheck(t *testing.T) {
	for _, f := range vz.Check(t.Context(), vz.NativeArch()) {
		t.Logf("%+v", f)
		if f.What == "" || f.Detail == "" {
			t.Errorf("an empty finding: %+v", f)
		}
		if f.Status == vm.FindingMissing {
			t.Errorf("these tests need what is missing: %s", f.Fix)
		}
	}
}
