//go:build linux

package e2e

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/vm/vmtest/guestport"
)

const (
	benchRounds = 6   // the first one warms TCG's translation cache and does not count
	turns       = 40  // of round trips, per round and transport
	turnTrips   = 40  // per turn, after
	settleTrips = 10  // that still feel the other transport's work
	dials       = 100 // per round
	streams     = 4   // per round and direction
	streamMiB   = 16  // per stream
)

// figures are what one transport took.
type figures struct {
	trips, dials       []time.Duration
	toGuest, fromGuest []float64 // MiB/s, one per stream
}

// BenchmarkVsock compares vsock with TCP over QEMU's user network in one guest
// in one run. It must win round trip and throughput, both ways. The machine's
// other load comes and goes, so the two take turns as often as they can.
func BenchmarkVsock(b *testing.B) {
	ports := map[uint32]int{guestport.Echo: freePort(b), guestport.Sink: freePort(b), guestport.Source: freePort(b)}
	netdev := "user,id=net0,restrict=on"
	for g, h := range ports {
		netdev += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", h, g)
	}
	vm := Start(b, Options{Args: []string{"-netdev", netdev, "-device", "virtio-net-pci,netdev=net0,romfile="}})
	b.Logf("guest: %s", vm.MustRun("uname")) // it listens everywhere now
	dial := [2]func(uint32) net.Conn{vm.Dial, func(p uint32) net.Conn {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[p]))
		if err != nil {
			b.Fatal(err)
		}
		return c
	}}
	var f [2]figures
	for i := range benchRounds {
		if i == 1 {
			f = [2]figures{}
		}
		conns := [2]net.Conn{dial[0](guestport.Echo), dial[1](guestport.Echo)}
		for range turns {
			for k, c := range conns {
				for n := range turnTrips + settleTrips {
					if d := timed(func() { roundTrip(b, c) }); n >= settleTrips {
						f[k].trips = append(f[k].trips, d)
					}
				}
			}
		}
		for range dials {
			for k := range dial {
				f[k].dials = append(f[k].dials, timed(func() {
					c := dial[k](guestport.Echo)
					defer c.Close()
					roundTrip(b, c)
				}))
			}
		}
		for k := range dial {
			conns[k].Close()
		}
		for n := range streams * len(dial) {
			k := n % len(dial)
			f[k].toGuest = append(f[k].toGuest, toGuest(b, dial[k](guestport.Sink)))
			f[k].fromGuest = append(f[k].fromGuest, fromGuest(b, dial[k](guestport.Source)))
		}
	}
	// Each ratio is of times, so below 1 is better than TCP.
	ratio := func(vsock, tcp []time.Duration, q float64) float64 {
		return quantile(vsock, q).Seconds() / quantile(tcp, q).Seconds()
	}
	v, n := &f[0], &f[1]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratio(v.trips, n.trips, 0.5), "round-trip/tcp")
	b.ReportMetric(quantile(n.toGuest, 0.5)/quantile(v.toGuest, 0.5), "time-to-guest/tcp")
	b.ReportMetric(quantile(n.fromGuest, 0.5)/quantile(v.fromGuest, 0.5), "time-from-guest/tcp")
	// No target is set for these.
	b.ReportMetric(ratio(v.trips, n.trips, 0.99), "round-trip-p99/tcp")
	b.ReportMetric(ratio(v.dials, n.dials, 0.5), "dial+round-trip+close/tcp")
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func roundTrip(t testing.TB, c net.Conn) {
	b := []byte{1}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
}

func quantile[T cmp.Ordered](xs []T, q float64) T {
	slices.Sort(xs)
	return xs[int(float64(len(xs))*q)]
}

func freePort(t testing.TB) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func toGuest(t testing.TB, c net.Conn) float64 {
	defer c.Close()
	b := make([]byte, 256<<10)
	start := time.Now()
	for range streamMiB * 4 {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.(halfCloser).CloseWrite()
	var n int64
	if err := binary.Read(c, binary.LittleEndian, &n); err != nil || n != streamMiB<<20 {
		t.Fatalf("guest got %d, %v", n, err)
	}
	return streamMiB / time.Since(start).Seconds()
}

func fromGuest(t testing.TB, c net.Conn) float64 {
	defer c.Close()
	start := time.Now()
	if err := binary.Write(c, binary.LittleEndian, int64(streamMiB<<20)); err != nil {
		t.Fatal(err)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, make([]byte, 256<<10))
	if err != nil || n != streamMiB<<20 {
		t.Fatalf("got %d, %v", n, err)
	}
	return streamMiB / time.Since(start).Seconds()
}
