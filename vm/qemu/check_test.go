//go:build linux

package qemu_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string][2]int{
		"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright": {7, 2},
		"QEMU emulator version 10.0.2":                                           {10, 0},
	} {
		if major, minor, err := qemu.ParseVersion([]byte(text)); err != nil || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, err)
		}
	}
	for _, text := range []string{"", "qemu-img version 7.2.22", "QEMU emulator version x", "QEMU emulator version 99999999999999999999.0"} {
		if _, _, err := qemu.ParseVersion([]byte(text)); err == nil {
			t.Errorf("%q has a version", text)
		}
	}
}

func TestVirtualizes(t *testing.T) {
	for info, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu vmx sse\n": true,
		"flags\t\t: fpu svm\n":                     true,
		"flags\t\t: fpu svm_lock avmx\n":           false,
		"vmx flags\t: vnmi\nflags\t: fpu\n":        false,
		"":                                         false,
	} {
		if got := qemu.Virtualizes([]byte(info)); got != want {
			t.Errorf("%q: %v", info, got)
		}
	}
}

// An unusable QEMU must be reported with the command that repairs it.
func TestBadQEMU(t *testing.T) {
	for name, script := range map[string]string{
		"too old":        "echo QEMU emulator version 5.2.0",
		"does not start": "echo libfoo.so is missing >&2; exit 127",
		"no QEMU":        "echo hello",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			_, err := new(qemu.Driver).Capabilities(t.Context(), vm.AMD64)
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.AdviceOf(err), ": sudo ") {
				t.Errorf("Capabilities = %v (%s)", err, fault.AdviceOf(err))
			}
			found := qemu.Check(t.Context(), vm.AMD64)[0]
			if found.Status != vm.FindingMissing || found.Fix != fault.AdviceOf(err) {
				t.Errorf("Check = %+v", found)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		for _, f := range qemu.Check(t.Context(), arch) {
			t.Logf("%s: %+v", arch, f)
			if f.What == "" || f.Detail == "" {
				t.Errorf("an empty finding: %+v", f)
			}
			if f.Status == vm.FindingMissing {
				t.Errorf("these tests need what is missing: %s", f.Fix)
			}
		}
	}
}
