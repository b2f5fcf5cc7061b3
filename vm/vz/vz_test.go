//go:build darwin || vzstandin

package vz_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/vmtest"
	"osaurus-sandbox/vm/vz"
)

// The framework does not report a kernel panic, so the driver must find it on the console.
func TestKernelPanic(t *testing.T) {
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

func TestCheck(t *testing.T) {
	found := vz.Check(t.Context(), vz.NativeArch())
	if !slices.ContainsFunc(found, func(f vm.Finding) bool { return f.What == "not enforced here" }) {
		t.Error("nothing says what Apple's file server does not enforce")
	}
	for _, f := range found {
		t.Logf("%+v", f)
		if f.What == "" || f.Detail == "" {
			t.Errorf("an empty finding: %+v", f)
		}
		if f.Status == vm.FindingMissing {
			t.Errorf("these tests need what is missing: %s", f.Fix)
		}
	}
}
