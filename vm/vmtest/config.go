package vmtest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vmtest/guestport"
)

func (r *run) testCapabilities(t *testing.T) {
	if r.caps.Accelerator == "" {
		t.Error("no accelerator is named")
	}
	if len(r.caps.Ownership) == 0 {
		t.Error("shares can have no ownership at all")
	}
	if _, err := r.Driver.Capabilities(t.Context(), "pdp11"); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
		t.Errorf("Capabilities for an unknown architecture: %v, want unavailable with advice", err)
	}
}

// testConfig breaks each field of a good configuration in turn.
func (r *run) testConfig(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	disk, uneven, nothing := file("disk", 1<<20), file("uneven", 1000), file("empty", 0)
	missing := filepath.Join(dir, "missing")
	closed, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	share := func(s vm.Share) func(*vm.Config) {
		return func(c *vm.Config) { c.Shares = append(c.Shares, s) }
	}
	for _, bad := range []struct {
		field string // that the error names
		edit  func(*vm.Config)
	}{
		{"Name", func(c *vm.Config) { c.Name = "" }},
		{"Name", func(c *vm.Config) { c.Name = "a,debug-threads=on" }},
		{"Name", func(c *vm.Config) { c.Name = strings.Repeat("a", vm.MaxName+1) }},
		{"Arch", func(c *vm.Config) { c.Arch = "pdp11" }},
		{"CPUs", func(c *vm.Config) { c.CPUs = 0 }},
		{"CPUs", func(c *vm.Config) { c.CPUs = vm.MaxCPUs + 1 }},
		{"Memory", func(c *vm.Config) { c.Memory = 0 }},
		{"Memory", func(c *vm.Config) { c.Memory += 4096 }},
		{"Memory", func(c *vm.Config) { c.Memory = vm.MaxMemory << 1 }},
		{"Kernel", func(c *vm.Config) { c.Kernel = "" }},
		{"Kernel", func(c *vm.Config) { c.Kernel = missing }},
		{"Kernel", func(c *vm.Config) { c.Kernel = "vmlinuz" }},
		{"Kernel", func(c *vm.Config) { c.Kernel = dir }},
		{"Initrd", func(c *vm.Config) { c.Initrd = missing }},
		{"Disks[0]", func(c *vm.Config) { c.Disks = []vm.Disk{{Path: missing}} }},
		{"Disks[0]", func(c *vm.Config) { c.Disks = []vm.Disk{{Path: dir, ReadOnly: true}} }},
		{"Disks[0]", func(c *vm.Config) { c.Disks = []vm.Disk{{Path: uneven}} }},
		{"Disks[0]", func(c *vm.Config) { c.Disks = []vm.Disk{{Path: nothing}} }},
		{"Shares[0].Tag", share(vm.Share{Tag: "", Path: dir})},
		{"Shares[0].Tag", share(vm.Share{Tag: "a,b", Path: dir})},
		{"Shares[0].Tag", share(vm.Share{Tag: strings.Repeat("a", vm.MaxTag+1), Path: dir})},
		{"Shares[0].Path", share(vm.Share{Tag: "a", Path: missing})},
		{"Shares[0].Path", share(vm.Share{Tag: "a", Path: "."})},
		{"Shares[0].Path", share(vm.Share{Tag: "a", Path: disk})},
		{"Shares[0].Ownership", share(vm.Share{Tag: "a", Path: dir, Ownership: "nobody"})},
		{"NIC", func(c *vm.Config) { c.NIC = os.Stdout }},
		{"NIC", func(c *vm.Config) { c.NIC = closed }},
	} {
		cfg := r.image.Config(t)
		bad.edit(&cfg)
		m, err := r.Driver.New(t.Context(), cfg)
		if err == nil {
			m.Close()
			t.Errorf("%s: a bad one is accepted", bad.field)
			continue
		}
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Kind != fault.InvalidArgs || e.Subject != bad.field || e.Advice == "" {
			t.Errorf("%s: New = %v, want invalid_args that names the field, with advice", bad.field, err)
		}
	}
}

// testNotStarted checks a machine that never runs.
func (r *run) testNotStarted(t *testing.T) {
	g := New(t, r.Driver, r.image.Config(t))
	if s := g.State(); s != vm.Stopped {
		t.Errorf("a new machine is %s", s)
	}
	rejected(t, "RequestStop", g.RequestStop(t.Context()))
	if err := g.Kill(t.Context()); err != nil {
		t.Errorf("Kill = %v", err)
	}
	l, err := g.Listen(guestport.RelayBack)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Listen(guestport.RelayBack); fault.KindOf(err) != fault.Rejected {
		t.Errorf("second Listen on a port = %v, want rejected", err)
	}
	if err := g.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	r.afterwards(t, g, l)
}

// afterwards checks a machine that has ended, and a listener of its.
func (r *run) afterwards(t *testing.T, g *Guest, l net.Listener) {
	t.Helper()
	g.end(soon)
	if err := g.Err(); err != nil {
		t.Errorf("Err = %v", err)
	}
	if s := g.State(); s != vm.Stopped {
		t.Errorf("a machine that ended orderly is %s", s)
	}
	rejected(t, "Start", g.Start(t.Context()))
	rejected(t, "RequestStop", g.RequestStop(t.Context()))
	if err := g.Kill(t.Context()); err != nil {
		t.Errorf("Kill after the end = %v", err)
	}
	_, err := g.Dial(t.Context(), guestport.Echo)
	rejected(t, "Dial", err)
	_, err = g.Listen(guestport.RelayBack + 1)
	rejected(t, "Listen", err)
	if l != nil {
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after the end = %v, want net.ErrClosed", err)
		}
	}
	if err := g.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := g.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
}

func rejected(t *testing.T, method string, err error) {
	t.Helper()
	if fault.KindOf(err) != fault.Rejected {
		t.Errorf("%s = %v, want rejected", method, err)
	}
}
