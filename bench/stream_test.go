//go:build linux

package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"osaurus-sandbox/control"
	"osaurus-sandbox/engine"
)

const (
	streamBytes = 200 << 20
	streamTurns = 3 // of each side, after one that warms up
	sourcePort  = 2223
)

// BenchmarkStream compares what an agent's command writes, as it comes out of the
// control API, with the same amount from a program in the guest over a bare vsock
// connection; and with the command alone, whose output goes nowhere.
func BenchmarkStream(b *testing.B) {
	w := newWorld(b)
	w.build("source")
	w.root("cp /workspace/shared/source /usr/local/bin")
	source, err := w.client.Run(b.Context(), control.RunAs{}, engine.Command{Args: []string{"/usr/local/bin/source", fmt.Sprint(sourcePort), fmt.Sprint(streamBytes)}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = source.Signal(context.Background(), engine.SIGTERM) })
	command := fmt.Sprintf("yes | head -c %d", streamBytes)
	var streamed, bare, alone []time.Duration
	for turn := range streamTurns + 1 {
		s, v, a := w.stream(command, streamBytes), w.from(sourcePort, streamBytes), w.stream(command+" > /dev/null", 0)
		if turn > 0 {
			streamed, bare, alone = append(streamed, s), append(bare, v), append(alone, a)
		}
	}
	took := median(streamed).Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(streamBytes/took/(1<<20), "MiB/s")
	b.ReportMetric(median(bare).Seconds()/took, "stream/vsock")
	b.ReportMetric(median(alone).Seconds()/took, "stream/alone")
}

// stream is how long alice's command takes, of which so many bytes must come.
func (w *world) stream(line string, want int64) time.Duration {
	w.b.Helper()
	began := time.Now()
	var got counter
	p, err := w.client.Run(w.b.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"sh", "-c", line}, Stdout: &got})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 || int64(got) != want {
		w.b.Fatalf("%d bytes, %+v %v", got, exit, err)
	}
	return time.Since(began)
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
