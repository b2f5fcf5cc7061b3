//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/fs"
)

const (
	fsBenchRounds = 5 // the first one warms TCG's translation cache and does not count
	fsBenchMiB    = 128
	fsBenchFiles  = 10000
	virtiofsd     = "/usr/lib/qemu/virtiofsd"
)

// TestFSBench compares this module's virtio-fs device with Debian's daemon, in
// one guest, in turns. Like is compared with like: the daemon's cache=auto
// trusts names and attributes for a second, as the subtree policy does. The
// asker policy and cache=none are shown beside them.
func TestFSBench(t *testing.T) {
	if os.Getenv("OSAURUS_BENCH") == "" {
		t.Skip("OSAURUS_BENCH is not set")
	}
	const ours, daemon, asker, none = "subtree", "daemon-auto", "asker", "daemon-none"
	const q = "vhost-user-fs-pci,queue-size=1024,tag="
	var devices []Device
	for _, o := range []vm.Ownership{ours, asker} {
		d, err := fs.New(vm.Share{Tag: string(o), Path: t.TempDir(), Ownership: o}, fs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		devices = append(devices, Device{Backend: d, QEMU: q + string(o)})
	}
	for _, cache := range []string{"auto", "none"} {
		sock := filepath.Join(t.TempDir(), "vfs")
		cmd := exec.Command(virtiofsd, "--socket-path="+sock, "-o", "source="+t.TempDir(), "-o", "cache="+cache, "-o", "sandbox=chroot")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		for range 100 {
			if _, err := os.Stat(sock); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		devices = append(devices, Device{Socket: sock, QEMU: q + "daemon-" + cache})
	}
	guest := Start(t, Options{Devices: devices})
	tags := []string{ours, daemon, asker, none}
	for _, tag := range tags {
		guest.MustRun("mount", tag, "/mnt/"+tag)
	}
	took := map[string]map[string][]float64{} // by tag and step, seconds
	for round := range fsBenchRounds {
		mib, files := fsBenchMiB, fsBenchFiles/(fsBenchRounds-1)
		if round == 0 {
			mib, files = 16, 200
		}
		for _, tag := range tags {
			if round > 2 && (tag == asker || tag == none) {
				continue // slow, and for information only
			}
			if p := os.Getenv("OSAURUS_PROFILE"); p != "" && round == 1 && tag == ours {
				f, err := os.Create(p)
				if err != nil {
					t.Fatal(err)
				}
				_ = pprof.StartCPUProfile(f)
			}
			v, err := guest.Run("fsbench", "/mnt/"+tag, mib, files)
			pprof.StopCPUProfile()
			var r map[string]float64
			_ = json.Unmarshal(v, &r)
			if err != nil {
				t.Fatalf("%s: %v %v", tag, err, r)
			}
			if round == 0 {
				continue
			}
			if took[tag] == nil {
				took[tag] = map[string][]float64{}
			}
			for step, s := range r {
				took[tag][step] = append(took[tag][step], s)
			}
		}
	}
	median := func(tag, step string) float64 {
		s := slices.Sorted(slices.Values(took[tag][step]))
		return s[len(s)/2]
	}
	for _, tag := range tags {
		files := float64(fsBenchFiles / (fsBenchRounds - 1))
		t.Logf("%-12s write %5.0f MiB/s  read %5.0f MiB/s  4k O_DIRECT read %5.0f/s  create %6.0f/s  stat %6.0f/s  cold stat %6.0f/s  unlink %6.0f/s  readdir %.3fs (tcg)",
			tag, fsBenchMiB/median(tag, "write"), fsBenchMiB/median(tag, "read"), 2000/median(tag, "randread4k"),
			files/median(tag, "create"), files/median(tag, "stat"), files/median(tag, "coldstat"), files/median(tag, "unlink"), median(tag, "readdir"))
	}
	churn := func(tag string) float64 { return median(tag, "create") + median(tag, "stat") + median(tag, "unlink") }
	for _, c := range []struct {
		what          string
		ratio, atMost float64 // of time, ours to the daemon's
	}{
		{"write", median(ours, "write") / median(daemon, "write"), 1 / 0.95},
		{"read", median(ours, "read") / median(daemon, "read"), 1 / 0.95},
		{"10,000 create+stat+unlink", churn(ours) / churn(daemon), 1.1},
	} {
		t.Logf("virtiofs/virtiofsd time, %s: %.2f (tcg)", c.what, c.ratio)
		if c.ratio > c.atMost {
			t.Errorf("%s takes %.2f times virtiofsd's time, which is more than %.2f", c.what, c.ratio, c.atMost)
		}
	}
}
