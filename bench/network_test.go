//go:build linux

package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/network"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

const (
	networkBytes = 8 << 20
	floodTries   = 20000
)

// slirp is the second NIC of the guest: QEMU's own network, which the gateway has replaced.
const slirp = "-netdev user,id=slirp,net=10.0.3.0/24,host=10.0.3.2,ipv6=off -device virtio-net-pci,netdev=slirp,romfile=,disable-legacy=on"

// BenchmarkNetwork compares the gateway with QEMU's own network, in one guest that has both, and a
// host that the gateway opens with one that it does not. The two take turns in short rounds, and the
// figure is the median of the rounds' ratios. It also measures what a flood takes of memory.
func BenchmarkNetwork(b *testing.B) {
	o := newOutside(b)
	start := hostMemory(b)
	opened, _, err := network.Open(*o.options(b))
	if err != nil {
		b.Fatal(err)
	}
	empty := hostMemory(b) - start
	if err := opened.Close(); err != nil {
		b.Fatal(err)
	}
	g := bootWithSlirp(b, o.options(b))
	booted := hostMemory(b)
	echo := func(c net.Conn) { _, _ = io.Copy(c, c) }
	for _, load := range []struct {
		what          string
		rounds, count int
		rate          bool           // a ratio of rates, not of times
		serve         func(net.Conn) // at a port of this computer
		a, b          string
	}{
		{"send", 15, networkBytes, true, takeAll, "10.0.2.2", "10.0.3.2"},
		{"receive", 15, networkBytes, true, giveAll, "10.0.2.2", "10.0.3.2"},
		{"echo", 31, 100, false, echo, "10.0.2.2", "10.0.3.2"},
		{"connect", 21, 160, true, func(net.Conn) {}, "10.0.2.2", "10.0.3.2"},
		{"dns", 31, 50, false, nil, "10.0.2.2:53", fmt.Sprint("10.0.3.2:", o.namePort)},
		{"tls", 8, networkBytes, true, nil, openedName, plainName},
	} {
		b.Run(load.what, func(b *testing.B) {
			if load.serve != nil {
				port := serveEach(b, load.serve)
				load.a, load.b = fmt.Sprint(load.a, ":", port), fmt.Sprint(load.b, ":", port)
			}
			var ratios []float64
			var took []time.Duration
			for _, t := range netload(b, g, load.what, load.rounds, load.count, load.a, load.b) {
				took = append(took, t[0])
				if load.rate {
					t[0], t[1] = t[1], t[0]
				}
				ratios = append(ratios, t[0].Seconds()/t[1].Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(0, "ns/op")
			if load.rate {
				b.ReportMetric(ratios[len(ratios)/2], "rate-ratio")
				b.ReportMetric(float64(load.count)/median(took).Seconds(), "per-s")
			} else {
				b.ReportMetric(ratios[len(ratios)/2], "time-ratio")
				b.ReportMetric(float64(median(took).Microseconds()), "us")
			}
		})
	}
	if o.opened.Load() == 0 {
		b.Error("no connection was opened")
	}
	b.Run("memory", func(b *testing.B) {
		rest := hostMemory(b)
		port, stop, most := serveEach(b, echo), make(chan struct{}), make(chan float64)
		go func() {
			peak := 0.0
			for {
				select {
				case <-stop:
					most <- peak
					return
				case <-time.After(20 * time.Millisecond):
					peak = max(peak, residentNow(b))
				}
			}
		}()
		netload(b, g, "flood", 1, floodTries, fmt.Sprint("10.0.2.2:", port))
		close(stop)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(empty+rest-booted, "MiB-idle")
		b.ReportMetric(<-most-booted, "MiB-flood")
	})
}

// netload runs the program in the guest, and returns the times of each round.
func netload(b *testing.B, g *boot.Guest, what string, rounds, count int, ways ...string) (list [][2]time.Duration) {
	b.Helper()
	var out, errs bytes.Buffer
	exit, err := g.Client.Run(b.Context(), engine.Command{
		Args:   append([]string{"/mnt/programs/netload", what, strconv.Itoa(rounds), strconv.Itoa(count)}, ways...),
		Stdout: &out, Stderr: &errs, Timeout: 5 * time.Minute,
	})
	if err != nil || exit.Status() != 0 {
		b.Fatalf("%s: %+v %v\n%s", what, exit, err, &errs)
	}
	for line := range strings.Lines(out.String()) {
		var took [2]time.Duration
		for i, text := range strings.Fields(line) {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			took[i] = time.Duration(n)
		}
		list = append(list, took)
	}
	return list
}

// hostMemory is what this process holds at rest, in MiB.
func hostMemory(b *testing.B) float64 {
	debug.FreeOSMemory()
	return residentNow(b)
}

// residentNow leaves out the guest's memory, which devices in this process map.
func residentNow(b *testing.B) (mib float64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Error(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && (f[0] == "RssAnon:" || f[0] == "RssFile:") {
			kib, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Error(err)
			}
			mib += kib / 1024
		}
	}
	return mib
}

// bootWithSlirp boots a guest with both networks and the program netload.
func bootWithSlirp(b *testing.B, o *network.Options) *boot.Guest {
	b.Helper()
	const name = "qemu-system-x86_64"
	if vm.HostArch() != vm.AMD64 {
		b.Skip("the wrapper is for " + name)
	}
	real, err := exec.LookPath(name)
	if err != nil {
		b.Fatal(err)
	}
	bin, programs := b.TempDir(), b.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *-netdev*) exec %s \"$@\" %s;; esac\nexec %[1]s \"$@\"\n", real, slirp)
	if err := os.WriteFile(filepath.Join(bin, name), []byte(wrapper), 0o755); err != nil {
		b.Fatal(err)
	}
	b.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	buildInto(b, programs, "netload")
	g, err := boot.Boot(b.Context(), boot.Spec{
		Driver: lab.Driver(&qemu.Driver{}), Image: lab.Image(b, lab.DebianPack(b)), Hostname: "network", Network: o,
		Config: vm.Config{Name: "network", CPUs: cpus, Memory: memoryMB << 20, ConsoleLog: filepath.Join(b.TempDir(), "console.log"),
			Shares: []vm.Share{{Tag: "programs", Path: programs, ReadOnly: true, Ownership: vm.OwnershipEverybody}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	var out bytes.Buffer
	exit, err := g.Client.Run(b.Context(), engine.Command{
		Args: []string{"sh", "-c", "ip link set eth1 up && ip addr add 10.0.3.15/24 dev eth1"}, Stdout: &out, Stderr: &out,
	})
	if err != nil || exit.Status() != 0 {
		b.Fatalf("%+v %v: %s", exit, err, &out)
	}
	return g
}
