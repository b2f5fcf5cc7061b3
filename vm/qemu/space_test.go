//go:build linux

package qemu_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/vmtest"
)

// A guest that writes to its disk while the host's is full gets no error: its machine stalls, says
// why, and writes when there is space again.
func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "128m", func(d *smalldisk.Disk) {
		cfg := vmtest.BuildImage(t, vm.ARM64).Config(t)
		disk := filepath.Join(d.Dir, "disk")
		if err := os.WriteFile(disk, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(disk, 32<<20); err != nil {
			t.Fatal(err)
		}
		cfg.Disks = []vm.Disk{{Path: disk}}
		g := vmtest.Boot(t, &qemu.Driver{}, cfg)
		if why := g.Stalled(); why != nil {
			t.Errorf("a machine with space: %v", why)
		}

		stalls := func(offset int, text string) <-chan error {
			d.Fill()
			done := make(chan error, 1)
			go func() {
				_, err := g.Call("patch", "/dev/vda", offset, text)
				done <- err
			}()
			timetest.Eventually(t, "it stalls", func() bool { return g.Stalled() != nil })
			return done
		}
		done := stalls(16<<20, "first")
		if why := g.Stalled(); !strings.Contains(why.Error(), "disk of this computer is full") || !strings.Contains(fault.AdviceOf(why), disk) {
			t.Errorf("%v (%s)", why, fault.AdviceOf(why))
		}
		time.Sleep(3 * time.Second) // it does not continue before there is space
		if g.Stalled() == nil {
			t.Error("it continues on a full disk")
		}
		continues := func(offset int, text string) {
			d.Free()
			if err := <-done; err != nil {
				t.Errorf("%s write: %v", text, err)
			}
			timetest.Eventually(t, "it continues", func() bool { return g.Stalled() == nil })
			if got := g.Must("readat", "/dev/vda", offset, len(text)); got != text {
				t.Errorf("the disk has %q, want %q", got, text)
			}
		}
		continues(16<<20, "first")
		done = stalls(24<<20, "second")
		continues(24<<20, "second")

		done = stalls(8<<20, "third")
		if err := vm.Shutdown(t.Context(), g, time.Second, nil); err != nil {
			t.Errorf("Shutdown of a stalled machine: %v", err)
		}
		<-done
		if s := g.State(); s != vm.Stopped || g.Err() != nil {
			t.Errorf("it is %s: %v", s, g.Err())
		}
	})
}
