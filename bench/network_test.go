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
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

// The loads of BenchmarkNetwork, each of which is measured in turns.
const (
	networkTurns   = 5
	networkBytes   = 32 << 20
	networkEchoes  = 500
	networkConnect = 320
)

// slirp is the second NIC of the guest: QEMU's own network, which the gateway has replaced.
const slirp = "-netdev user,id=slirp,net=10.0.3.0/24,host=10.0.3.2,ipv6=off -device virtio-net-pci,netdev=slirp,romfile=,disable-legacy=on"

// BenchmarkNetwork compares the gateway with QEMU's own network, in one guest that has both.
func BenchmarkNetwork(b *testing.B) {
	g := bootWithSlirp(b)
	run := func(what, address string, count int) time.Duration {
		b.Helper()
		var out, errs bytes.Buffer
		exit, err := g.Client.Run(b.Context(), engine.Command{
			Args: []string{"/mnt/programs/netload", what, address, strconv.Itoa(count)}, Stdout: &out, Stderr: &errs, Timeout: 5 * time.Minute,
		})
		if err != nil || exit.Status() != 0 {
			b.Fatalf("%s %s: %+v %v\n%s", what, address, exit, err, &errs)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(n)
	}
	for _, load := range []struct {
		what  string
		count int
		serve func(net.Conn)
	}{
		{"send", networkBytes, func(c net.Conn) { _, _ = io.Copy(io.Discard, c); _, _ = c.Write([]byte{1}) }},
		{"receive", networkBytes, func(c net.Conn) { _, _ = io.CopyN(c, endless{}, networkBytes) }},
		{"echo", networkEchoes, func(c net.Conn) { _, _ = io.Copy(c, c) }},
		{"connect", networkConnect, func(net.Conn) {}},
	} {
		port := serveEach(b, load.serve)
		var gateway, theirs []time.Duration
		for range networkTurns {
			gateway = append(gateway, run(load.what, fmt.Sprint("10.0.2.2:", port), load.count))
			theirs = append(theirs, run(load.what, fmt.Sprint("10.0.3.2:", port), load.count))
		}
		b.Run(load.what, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(gateway).Seconds()/median(theirs).Seconds(), "time-gateway/slirp")
			if load.count == networkBytes {
				b.ReportMetric(networkBytes/median(gateway).Seconds()/(1<<20), "MiB/s")
			}
		})
	}
}

// bootWithSlirp boots a guest with both networks and the program netload.
func bootWithSlirp(b *testing.B) *boot.Guest {
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
		Driver: lab.Driver(&qemu.Driver{}), Image: lab.Image(b, lab.DebianPack(b)), Name: "network", Hostname: "network",
		CPUs: cpus, Memory: memoryMB << 20, ConsoleLog: filepath.Join(b.TempDir(), "console.log"),
		Network: boot.OpenNetwork(config.NetworkRule{Host: config.Localhost}),
		Shares:  []boot.Share{{Share: vm.Share{Tag: "programs", Path: programs, ReadOnly: true, Ownership: vm.OwnershipEverybody}, MountPoint: "/mnt/programs"}},
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

// serveEach serves connections on this computer's loopback.
func serveEach(b *testing.B, serve func(net.Conn)) int {
	b.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// endless has bytes without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
