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

// A guest that writes to its disk while the host's is full is not told of an error: its machine
// stands still, says why, and has written when there is room again.
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
			t.Errorf("a machine with room: %v", why)
		}

		write := func(offset int, text string) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := g.Call("patch", "/dev/vda", offset, text)
				done <- err
			}()
			return done
		}
		d.Fill()
		done := write(16<<20, "first")
		stands := func() bool { return g.Stalled() != nil && g.State() == vm.Paused }
		timetest.Eventually(t, "it stands still", stands)
		if why := g.Stalled(); !strings.Contains(why.Error(), "disk of this computer is full") || !strings.Contains(fault.AdviceOf(why), disk) {
			t.Errorf("%v (%s)", why, fault.AdviceOf(why))
		}
		time.Sleep(3 * time.Second) // it does not go on before there is room
		if !stands() {
			t.Errorf("it is %s: %v", g.State(), g.Stalled())
		}
		d.Free()
		if err := <-done; err != nil {
			t.Errorf("what was written while the disk was full: %v", err)
		}
		timetest.Eventually(t, "it runs", func() bool { return g.Stalled() == nil && g.State() == vm.Running })

		d.Fill()
		done = write(24<<20, "second")
		timetest.Eventually(t, "it stands still again", stands)
		d.Free()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for offset, want := range map[int]string{16 << 20: "first", 24 << 20: "second"} {
			if got := g.Must("readat", "/dev/vda", offset, len(want)); got != want {
				t.Errorf("it has %q, want %q", got, want)
			}
		}

		d.Fill()
		done = write(8<<20, "third")
		timetest.Eventually(t, "it stands still", stands)
		if err := vm.Shutdown(t.Context(), g, time.Second, nil); err != nil {
			t.Errorf("Shutdown of a machine that stands still: %v", err)
		}
		<-done
		if s := g.State(); s != vm.Stopped || g.Err() != nil {
			t.Errorf("it is %s: %v", s, g.Err())
		}
	})
}
