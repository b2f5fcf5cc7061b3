package boot_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

// BenchmarkShell runs a command in a persistent shell of a room, and types the same
// into a bare bash on a terminal of the same room, in turns. Both go over the same
// connection; the ratio is that of the medians.
func BenchmarkShell(b *testing.B) {
	h := newHome(b, lab.Image(b, lab.DebianPack(b)), vm.OwnershipAsker)
	h.driver = &qemu.Driver{} // as it is for people
	h.boot(b)
	ctx, c := b.Context(), h.guest.Client
	room := engine.RoomConfig{User: "agent-alice", UID: 2001, Home: guest.HomesDir + "/alice", Hostname: "alice"}
	if err := os.Mkdir(filepath.Join(h.workspace, "agents", "alice"), 0o777); err != nil {
		b.Fatal(err)
	}
	if _, err := c.EnsureRoom(ctx, room, ""); err != nil {
		b.Fatal(err)
	}
	b.Run("inside", func(b *testing.B) { benchmarkInside(b, h) })
	bare := startBare(ctx, b, c, room.User)
	shell := engine.ShellCommand{Shell: engine.Shell{Session: "bench"}}
	for _, command := range []string{"/bin/true", ":"} {
		shell.Command = command
		b.Run(command, func(b *testing.B) {
			var ours, theirs []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := c.Room(room.User).RunShell(ctx, shell); err != nil {
					b.Fatal(err)
				}
				ours = append(ours, time.Since(start))
				start = time.Now()
				bare.run(command)
				theirs = append(theirs, time.Since(start))
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			shell, pty := ours[len(ours)/2], theirs[len(theirs)/2]
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(shell.Microseconds())/1000, "shell-ms")
			b.ReportMetric(float64(pty.Microseconds())/1000, "pty-ms")
			b.ReportMetric(float64(shell)/float64(pty), "shell/pty")
		})
	}
}

// benchmarkInside runs guest/shell's own benchmark in the guest: the same without the
// way there.
func benchmarkInside(b *testing.B, h *home) {
	program := filepath.Join(h.workspace, "shell.test")
	build := exec.CommandContext(b.Context(), "go", "test", "-c", "-trimpath", "-o", program, "osaurus-sandbox/guest/shell")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	var out bytes.Buffer
	exit, err := h.guest.Client.Run(b.Context(), engine.Command{
		Args:   []string{"sh", "-c", "cp /workspace/shell.test /tmp && cd /tmp && TMPDIR=/dev/shm ./shell.test -test.run '^$' -test.bench Command -test.benchtime 100x"},
		Stdout: &out, Stderr: &out,
	})
	said := regexp.MustCompile(`([0-9.]+) ratio`).FindSubmatch(out.Bytes())
	if err != nil || exit.Status() != 0 || said == nil {
		b.Fatalf("%+v %v\n%s", exit, err, &out)
	}
	ratio, _ := strconv.ParseFloat(string(said[1]), 64) // the expression has seen to it
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratio, "shell/pty")
	b.Logf("%s", &out)
}

// bare is a bash on a terminal, as a script of expect would drive it.
type bare struct {
	b      *testing.B
	typing io.Writer

	mu   sync.Mutex
	seen bytes.Buffer
	more chan struct{}
}

const prompt = "@ready@"

func startBare(ctx context.Context, b *testing.B, c *guest.Client, user config.LinuxUser) *bare {
	b.Helper()
	in, typing := io.Pipe()
	p := &bare{b: b, typing: typing, more: make(chan struct{}, 1)}
	process, err := c.Room(user).Exec(ctx, engine.Command{
		Args: []string{"bash", "--norc", "--noprofile", "-i"}, Env: []string{"PS1=" + prompt},
		Terminal: &engine.Terminal{Size: engine.TerminalSize{Rows: 24, Cols: 80}}, Stdin: in, Stdout: p,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = typing.Close()
		_ = process.Signal(context.Background(), engine.SIGHUP)
		_, _ = process.Wait()
	})
	p.await()
	return p
}

func (p *bare) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.seen.Write(b)
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *bare) run(command string) {
	p.mu.Lock()
	p.seen.Reset()
	p.mu.Unlock()
	if _, err := io.WriteString(p.typing, command+"\r"); err != nil {
		p.b.Fatal(err)
	}
	p.await()
}

// await waits for the next prompt.
func (p *bare) await() {
	for {
		p.mu.Lock()
		found := bytes.Contains(p.seen.Bytes(), []byte(prompt))
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-p.more:
		case <-time.After(time.Minute):
			p.b.Fatal("no prompt comes")
		}
	}
}
