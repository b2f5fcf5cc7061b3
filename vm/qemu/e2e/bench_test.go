//go:build linux

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
	"osaurus-sandbox/vm/vmtest"
	"osaurus-sandbox/vm/vmtest/guestport"
)

const (
	rounds = 5 // beside the first, which warms up
	mib    = 32
	files  = 1000
	trips  = 500
)

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// BenchmarkFS measures file operations in shares of both kinds of ownership.
func BenchmarkFS(b *testing.B) {
	cfg := vmtest.BuildImage(b, vm.AMD64).Config(b)
	owners := []vm.Ownership{vm.OwnershipSubtree, vm.OwnershipAsker}
	for _, o := range owners {
		cfg.Shares = append(cfg.Shares, vm.Share{Tag: string(o), Path: b.TempDir(), Ownership: o})
	}
	g := vmtest.Boot(b, &qemu.Driver{}, cfg)
	b.ReportMetric(0, "ns/op")
	for _, o := range owners {
		g.Must("mount", o, fmt.Sprint("/mnt/", o))
		took := map[string][]float64{} // seconds, by step
		for range rounds + 1 {
			var steps map[string]float64
			if err := json.Unmarshal([]byte(g.Must("fsbench", fmt.Sprint("/mnt/", o), mib, files)), &steps); err != nil {
				b.Fatal(err)
			}
			for step, s := range steps {
				took[step] = append(took[step], s)
			}
		}
		for step, all := range took {
			b.ReportMetric(1000*median(all[1:]), fmt.Sprintf("ms/%s-%s", o, step))
		}
	}
}

// BenchmarkVsock measures round trips, dials and throughput of connections into a guest.
func BenchmarkVsock(b *testing.B) {
	g := vmtest.Boot(b, &qemu.Driver{}, vmtest.BuildImage(b, vm.AMD64).Config(b))
	dial := func(port uint32) net.Conn {
		c, err := g.Dial(b.Context(), port)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	one := []byte{1}
	trip := func(c net.Conn) {
		_, err := c.Write(one)
		check(err)
		_, err = io.ReadFull(c, one)
		check(err)
	}
	echo := dial(guestport.Echo)
	defer echo.Close()
	for name, step := range map[string]struct {
		times int
		run   func()
	}{
		"us/round-trip": {trips, func() { trip(echo) }},
		"us/dial":       {trips, func() { c := dial(guestport.Echo); defer c.Close(); trip(c) }},
		"us/MiB-to-guest": {mib, func() {
			c := dial(guestport.Sink)
			defer c.Close()
			_, err := c.Write(make([]byte, 1<<20))
			check(err)
			check(c.(interface{ CloseWrite() error }).CloseWrite())
			var n int64
			check(binary.Read(c, binary.LittleEndian, &n))
		}},
		"us/MiB-from-guest": {mib, func() {
			c := dial(guestport.Source)
			defer c.Close()
			check(binary.Write(c, binary.LittleEndian, int64(1<<20)))
			_, err := io.Copy(io.Discard, c)
			check(err)
		}},
	} {
		var took []float64
		for range step.times {
			began := time.Now()
			step.run()
			took = append(took, time.Since(began).Seconds())
		}
		b.ReportMetric(1e6*median(took), name)
	}
	b.ReportMetric(0, "ns/op")
}
