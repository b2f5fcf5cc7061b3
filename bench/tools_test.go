//go:build linux

package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/control"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

const (
	largeBytes = 64 << 20
	// pieceBytes is what one call writes: its arguments are bounded.
	pieceBytes  = 7 << 20
	largeTurns  = 3
	largePort   = 2224
	treeFiles   = 50_000
	treeFolders = 500
	searchTurns = 3
	// rangeChars is the most that one call reads; rangeCalls go on where the one before
	// has ended, at the beginning of a file and at its end.
	rangeChars = 100_000
	rangeCalls = 16
)

// BenchmarkReadFile compares sandbox_read_file of 1 KiB, through the control API,
// with cat of such a file over a kept-open ssh to the same guest. Both are on its disk.
func BenchmarkReadFile(b *testing.B) {
	w := newExecWorld(b)
	const name, write = "/tmp/small.txt", "yes 0123456789abcde | head -n 64 >/tmp/small.txt"
	w.as("alice", write)
	w.root(write)
	var tool, ssh []time.Duration
	for turn := range execTurns + 1 {
		var t, s []time.Duration
		for range execPerTurn {
			began := time.Now()
			w.read(name)
			t = append(t, time.Since(began))
		}
		for range execPerTurn {
			began := time.Now()
			if text, err := exec.Command("ssh", "-S", w.control, "agent@guest", "cat "+name).CombinedOutput(); err != nil || len(text) != 1024 {
				b.Fatalf("ssh: %v, %s", err, text)
			}
			s = append(s, time.Since(began))
		}
		if turn > 0 {
			tool, ssh = append(tool, t...), append(ssh, s...)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(tool).Microseconds())/1000, "read-ms")
	b.ReportMetric(median(tool).Seconds()/median(ssh).Seconds(), "read/ssh")
}

// read reads a file through the control API.
func (w *world) read(name string) {
	w.b.Helper()
	w.ask("sandbox_read_file", fmt.Sprintf(`{"path":%q}`, name))
}

// call calls a tool in this process.
func (w *world) call(tool tools.Name, arguments map[string]any) tools.Envelope {
	w.b.Helper()
	return w.callWith(tool, w.raw(arguments))
}

// raw are arguments as they come.
func (w *world) raw(arguments map[string]any) json.RawMessage {
	w.b.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		w.b.Fatal(err)
	}
	return raw
}

func (w *world) callWith(tool tools.Name, raw json.RawMessage) tools.Envelope {
	w.b.Helper()
	agent, err := w.server.Agents.Get("alice")
	if err != nil {
		w.b.Fatal(err)
	}
	a := toolhost.AgentOf(agent)
	a.Settings.AutonomousExec = true
	e := w.server.Tools.Call(w.b.Context(), tools.Call{Agent: a}, string(tool), raw)
	if !e.OK() {
		w.b.Fatal(e.Text())
	}
	return e
}

// BenchmarkLargeFile writes 64 MiB with calls of sandbox_write_file and reads them
// with one of share_artifact, beside the same amount over a bare vsock connection. A
// model reads with sandbox_read_file, in ranges: of those, the first are measured, and
// the last beside them.
func BenchmarkLargeFile(b *testing.B) {
	w := newWorld(b)
	w.build("source")
	w.root("mkdir -p /usr/local/bin && cp /workspace/shared/source /usr/local/bin")
	source, err := w.client.Run(b.Context(), control.RunAs{}, engine.Command{Args: []string{"/usr/local/bin/source", strconv.Itoa(largePort), strconv.Itoa(largeBytes)}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = source.Signal(context.Background(), engine.SIGTERM) })
	line := strings.Repeat("0123456789abcdef", 62) + "0123456\n"
	content := strings.Repeat(line, largeBytes/len(line)+1)[:largeBytes]
	for name, path := range map[string]string{"disk": "/tmp/large.txt", "share": "large.txt"} {
		var wrote, shared, first, last, bare, taken []time.Duration
		for range largeTurns {
			wrote = append(wrote, w.pieces(path, content))
			shared = append(shared, w.timed("share_artifact", map[string]any{"path": path}))
			first = append(first, w.ranges(path, 0))
			last = append(last, w.ranges(path, largeBytes-rangeCalls*rangeChars))
			bare = append(bare, w.from(largePort, largeBytes))
			taken = append(taken, w.to(largePort+1, content))
		}
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(largeBytes/median(bare).Seconds()/(1<<20), "from-vsock-MiB/s")
			b.ReportMetric(largeBytes/median(taken).Seconds()/(1<<20), "to-vsock-MiB/s")
			b.ReportMetric(median(taken).Seconds()/median(wrote).Seconds(), "write/vsock")
			b.ReportMetric(median(bare).Seconds()/median(shared).Seconds(), "read/vsock")
			b.ReportMetric(rangeCalls*rangeChars/median(first).Seconds()/(1<<20), "ranges-MiB/s")
			b.ReportMetric(median(last).Seconds()/median(first).Seconds(), "last/first")
		})
	}
}

// pieces is how long calls take that write a file, each a piece.
func (w *world) pieces(path, content string) (all time.Duration) {
	mode := "overwrite"
	for piece := range slices.Chunk([]byte(content), pieceBytes) {
		all += w.timed("sandbox_write_file", map[string]any{"path": path, "content": string(piece), "mode": mode})
		mode = "append"
	}
	return all
}

// ranges is how long calls take that read one range of a file after the other.
func (w *world) ranges(path string, offset int) (all time.Duration) {
	for range rangeCalls {
		all += w.timed("sandbox_read_file", map[string]any{"path": path, "offset": offset, "max_chars": rangeChars})
		offset += rangeChars
	}
	return all
}

// timed is how long a call takes, from its arguments as JSON to its envelope as a
// text.
func (w *world) timed(tool tools.Name, arguments map[string]any) time.Duration {
	raw := w.raw(arguments)
	began := time.Now()
	_ = w.callWith(tool, raw).Text()
	return time.Since(began)
}

// from is how long so many bytes take from a program of the guest.
func (w *world) from(port uint32, want int64) time.Duration {
	w.b.Helper()
	began := time.Now()
	c, err := dialGuest(*w.machine.Load(), port)
	if err != nil {
		w.b.Fatal(err)
	}
	defer c.Close()
	if n, err := io.Copy(io.Discard, c); err != nil || n != want {
		w.b.Fatalf("%d bytes, %v", n, err)
	}
	return time.Since(began)
}

// to is how long bytes take to a program of the guest.
func (w *world) to(port uint32, content string) time.Duration {
	w.b.Helper()
	began := time.Now()
	c, err := dialGuest(*w.machine.Load(), port)
	if err != nil {
		w.b.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, content); err != nil {
		w.b.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		w.b.Fatal(err)
	}
	return time.Since(began)
}

// BenchmarkSearch compares sandbox_search_files of a tree of 50,000 files with
// ripgrep, which runs in the same room and is timed there. They find the same.
func BenchmarkSearch(b *testing.B) {
	w := newWorld(b)
	const tree = "/tmp/tree"
	w.as("alice", fmt.Sprintf(`python3 - <<'END'
import os, random
random.seed(1)
words = [''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=random.randint(2, 9))) for _ in range(3000)]
for d in range(%d):
    os.makedirs(f'%s/{d:03}')
    for f in range(%d):
        lines = [' '.join(random.choices(words, k=8)) for _ in range(20)]
        if random.random() < 0.005:
            lines[7] = f'func Needle{d}x{f}() {{}}'
        with open(f'%[2]s/{d:03}/{f}.go', 'w') as out:
            out.write('\n'.join(lines) + '\n')
END`, treeFolders, tree, treeFiles/treeFolders))
	for _, pattern := range []string{"Needle", `func Needle\d+x\d+\(`} {
		var tool, rg []time.Duration
		for turn := range searchTurns + 1 {
			began := time.Now()
			e := w.call("sandbox_search_files", map[string]any{"pattern": pattern, "path": tree, "max_results": 500})
			t := time.Since(began)
			lines := strings.Split(strings.TrimSpace(w.as("alice", fmt.Sprintf(`s=$(date +%%s%%N); rg -n --no-heading -e '%s' %s >/tmp/found; e=$(date +%%s%%N); echo $((e-s)); cat /tmp/found`, pattern, tree))), "\n")
			nanos, err := strconv.ParseInt(lines[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			same(b, e, lines[1:])
			if turn > 0 { // the first finds nothing in memory
				tool, rg = append(tool, t), append(rg, time.Duration(nanos))
			}
		}
		b.Run(map[bool]string{true: "text", false: "expression"}[pattern == "Needle"], func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(median(tool).Milliseconds()), "search-ms")
			b.ReportMetric(median(tool).Seconds()/median(rg).Seconds(), "search/rg")
		})
	}
}

// as runs a script as an agent and returns what it writes.
func (w *world) as(agent, script string) string {
	w.b.Helper()
	var out, errs bytes.Buffer
	p, err := w.client.Run(w.b.Context(), control.RunAs{Agent: agent}, engine.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &errs})
	if err != nil {
		w.b.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status() != 0 {
		w.b.Fatalf("%+v %v: %s", exit, err, errs.String())
	}
	return out.String()
}

// same fails unless a search has found what ripgrep has.
func same(b *testing.B, e tools.Envelope, want []string) {
	b.Helper()
	var got struct {
		Result struct {
			Matches []struct {
				Path, Text string
				Line       int
			}
		}
	}
	if err := json.Unmarshal([]byte(e.Text()), &got); err != nil {
		b.Fatal(err)
	}
	var lines []string
	for _, m := range got.Result.Matches {
		lines = append(lines, fmt.Sprintf("%s:%d:%s", m.Path, m.Line, m.Text))
	}
	slices.Sort(lines)
	slices.Sort(want)
	if len(lines) == 0 || !slices.Equal(lines, want) {
		b.Fatalf("%d found, by ripgrep %d", len(lines), len(want))
	}
}
