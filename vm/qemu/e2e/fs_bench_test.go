//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu/fs"
)

const (
	fsRounds = 12 // beside the first, which warms TCG's translation cache
	fsMiB    = 32 // per round
	fsFiles  = 10000 / fsRounds
)

// BenchmarkFS compares this module's virtio-fs device with Debian's daemon, in
// one guest. Like is compared with like: the daemon's cache=auto trusts names
// and attributes for a second, as the subtree policy does. The asker policy and
// cache=none are shown beside them. The machine's other load comes and goes, so
// the sides take turns often.
func BenchmarkFS(b *testing.B) {
	const ours, daemon, asker, none = "subtree", "daemon-auto", "asker", "daemon-none"
	const q = "vhost-user-fs-pci,queue-size=1024,tag="
	var devices []Device
	for _, o := range []vm.Ownership{ours, asker} {
		d, err := fs.New(vm.Share{Tag: string(o), Path: b.TempDir(), Ownership: o}, fs.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		devices = append(devices, Device{Backend: d, QEMU: q + string(o)})
	}
	for _, cache := range []string{"auto", "none"} {
		devices = append(devices, Device{Socket: startDaemon(b, cache), QEMU: q + "daemon-" + cache})
	}
	guest := Start(b, Options{Devices: devices})
	for _, tag := range []string{ours, daemon, asker, none} {
		guest.MustRun("mount", tag, "/mnt/"+tag)
	}
	took := map[string]map[string][]float64{} // by tag and step, seconds
	measure := func(tag string) {
		v, err := guest.Run("fsbench", "/mnt/"+tag, fsMiB, fsFiles)
		var r map[string]float64
		_ = json.Unmarshal(v, &r)
		if err != nil {
			b.Fatalf("%s: %v %v", tag, err, r)
		}
		if took[tag] == nil {
			took[tag] = map[string][]float64{}
		}
		for step, s := range r {
			took[tag][step] = append(took[tag][step], s)
		}
	}
	measure(ours)
	measure(daemon)
	clear(took)
	for round := range fsRounds {
		pair := []string{ours, daemon}
		for i := range pair {
			measure(pair[(i+round)%2])
		}
		if round%4 == 0 { // slow, and for information only
			measure(asker)
			measure(none)
		}
	}
	median := func(xs []float64) float64 { return slices.Sorted(slices.Values(xs))[len(xs)/2] }
	of := func(tag, step string) float64 { return median(took[tag][step]) }
	for _, tag := range []string{ours, daemon, asker, none} {
		b.Logf("%-12s write %5.0f MiB/s  read %5.0f MiB/s  4k O_DIRECT read %5.0f/s  create %6.0f/s  stat %6.0f/s  cold stat %6.0f/s  unlink %6.0f/s",
			tag, fsMiB/of(tag, "write"), fsMiB/of(tag, "read"), 2000/of(tag, "randread4k"),
			fsFiles/of(tag, "create"), fsFiles/of(tag, "stat"), fsFiles/of(tag, "coldstat"), fsFiles/of(tag, "unlink"))
	}
	b.ReportMetric(0, "ns/op")
	for _, steps := range [][]string{{"write"}, {"read"}, {"create", "stat", "unlink"}} {
		// Each round compares what was measured side by side.
		var ratios []float64
		for round := range fsRounds {
			var mine, theirs float64
			for _, step := range steps {
				mine, theirs = mine+took[ours][step][round], theirs+took[daemon][step][round]
			}
			ratios = append(ratios, mine/theirs)
		}
		b.ReportMetric(median(ratios), strings.Join(steps, "+")+"-time/virtiofsd")
	}
}

// findDaemon finds Debian's virtiofsd where scripts/setup does: releases differ.
func findDaemon(b *testing.B) string {
	for _, place := range []string{"virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd"} {
		if program, err := exec.LookPath(place); err == nil {
			return program
		}
	}
	b.Fatal("there is no virtiofsd: run scripts/setup")
	return ""
}

// startDaemon starts Debian's virtiofsd for a folder of its own and returns its
// socket.
func startDaemon(b *testing.B, cache string) string {
	program := findDaemon(b)
	socket := filepath.Join(b.TempDir(), "socket")
	cmd := exec.Command(program, "--socket-path="+socket, "-o", "source="+b.TempDir(), "-o", "cache="+cache, "-o", "sandbox=chroot")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatalf("%v: run as root, which it needs", err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 500 {
		if _, err := os.Stat(socket); err == nil {
			return socket
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatal("virtiofsd makes no socket")
	return ""
}
