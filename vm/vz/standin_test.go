//go:build vzstandin && linux

package vz_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	real "github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vmtest"
	"osaurus-sandbox/vm/vz"
)

// Errors must name what a Mac lacks, with advice.
func TestRefusals(t *testing.T) {
	image := vmtest.BuildImage(t, vm.ARM64)
	for reason, want := range map[string]struct {
		kind fault.Kind
		text string
	}{
		"entitlement": {fault.Unavailable, "com.apple.security.virtualization"},
		"hardware":    {fault.Unavailable, "Use a Mac"},
		"silently":    {fault.Execution, "without a reason"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Setenv("VZ_STANDIN_REFUSES", reason)
			m, err := new(vz.Driver).New(t.Context(), image.Config(t))
			if err == nil {
				m.Close()
				t.Fatal("the machine is made")
			}
			if fault.KindOf(err) != want.kind || !strings.Contains(err.Error()+fault.AdviceOf(err), want.text) {
				t.Errorf("New = %v (%s)", err, fault.AdviceOf(err))
			}
			var missing []string
			for _, f := range vz.Check(t.Context(), vm.ARM64) {
				if f.Status == vm.FindingMissing {
					missing = append(missing, f.What+f.Fix)
				}
			}
			if reason != "silently" && !strings.Contains(strings.Join(missing, " "), want.text) {
				t.Errorf("Check finds missing: %q", missing)
			}
		})
	}
}

// TestVersions: Intel Macs before 15.5 boot no current kernel, and guests on Apple silicon do
// not see instructions that the framework does not carry through.
func TestVersions(t *testing.T) {
	for version, want := range map[string]vm.FindingStatus{
		"13.7.1": vm.FindingMissing, "15.4.1": vm.FindingMissing, "15.5": vm.FindingOK, "15.10": vm.FindingOK, "26": vm.FindingOK, "": vm.FindingOK,
	} {
		if f := vz.CheckVersion(vm.AMD64, version, nil); f.Status != want || (want == vm.FindingMissing) != strings.Contains(f.Fix, "15.5") {
			t.Errorf("an Intel Mac with macOS %s: %+v", version, f)
		}
		if f := vz.CheckVersion(vm.ARM64, version, nil); f.Status != vm.FindingOK {
			t.Errorf("Apple silicon with macOS %s: %+v", version, f)
		}
	}
	if args := strings.Join(vz.KernelArgs(vm.ARM64), " "); !strings.Contains(args, "arm64.nosve arm64.nosme") {
		t.Error(args)
	}
}

func TestExplain(t *testing.T) {
	ns := func(code real.ErrorCode) error {
		return &real.NSError{Domain: "VZErrorDomain", Code: int(code)}
	}
	for _, c := range []struct {
		err  error
		kind fault.Kind
		text string
	}{
		{real.ErrUnsupportedOSVersion, fault.Unavailable, "Update macOS"},
		{real.ErrBuildTargetOSVersion, fault.Unavailable, "Xcode"},
		{ns(real.ErrorInvalidVirtualMachineStateTransition), fault.Rejected, "again"},
		{ns(real.ErrorVirtualMachineLimitExceeded), fault.Unavailable, "another virtual machine"},
		{ns(real.ErrorInternal), fault.Execution, "log show"},
		{fault.Newf(fault.NotFound, "", "", "x").Advise("do this"), fault.NotFound, "do this"},
		{errors.New("x"), fault.Execution, "log show"},
	} {
		if err := vz.Explain("test", "", c.err); err.Kind != c.kind || !strings.Contains(err.Advice, c.text) {
			t.Errorf("%v is explained as %s: %s", c.err, err.Kind, err.Advice)
		}
	}
}

// rudely makes a machine of a framework with a fault.
func rudely(t *testing.T, fault string) *vmtest.Guest {
	t.Helper()
	t.Setenv("VZ_STANDIN_RUDE", fault)
	return vmtest.New(t, &vz.Driver{}, vmtest.BuildImage(t, vm.ARM64).Config(t))
}

func TestErrorWhileRunning(t *testing.T) {
	g := rudely(t, "error")
	_ = g.Start(t.Context()) // it may have ended before
	select {
	case <-g.Done():
	case <-time.After(vmtest.BootTimeout):
		t.Fatal("the machine does not end")
	}
	if err := g.Err(); g.State() != vm.Failed || err == nil || !strings.Contains(err.Error(), "the framework reports an error") {
		t.Errorf("a machine with an error is %s: %v", g.State(), err)
	}
}

func TestRefusedStop(t *testing.T) {
	g := rudely(t, "stop")
	g.Boot()
	ctx, cancel := context.WithTimeout(t.Context(), vmtest.BootTimeout)
	defer cancel()
	if err := g.Kill(ctx); err != nil || g.State() != vm.Stopped {
		t.Errorf("Kill = %v, and the machine is %s", err, g.State())
	}
}

// The stand-in must fail like the real module, or the other tests prove nothing.
func TestStandIn(t *testing.T) {
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		f()
	}
	image := vmtest.BuildImage(t, vm.ARM64)
	loader, err := real.NewLinuxBootLoader(image.Initrd) // not an Image
	if err != nil {
		t.Fatal(err)
	}
	bad, err := real.NewVirtualMachineConfiguration(loader, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	panics("a machine of an invalid configuration", func() { _, _ = real.NewVirtualMachine(bad) })
	good, err := real.NewVirtualMachineConfiguration(loader, 1, 512<<20)
	if err != nil {
		t.Fatal(err)
	}
	m, err := real.NewVirtualMachine(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err == nil || !strings.Contains(err.Error(), "Internal Virtualization error") {
		t.Errorf("Start with a kernel that is no Image = %v", err)
	}
	if s := m.State(); s != real.VirtualMachineStateError {
		t.Errorf("State = %d", s)
	}
}
