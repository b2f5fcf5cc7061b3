// Package guesttest is the conformance suite for guests. RunExec tests commands and runs against the bare service too; Run adds tests that need a booted machine.
package guesttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
)

// Connector returns a client of a booted guest. It is called once for each case and may return the
// same client each time.
type Connector func(*testing.T) *guest.Client

// patience bounds one case. It is generous for busy emulated guests.
const patience = 2 * time.Minute

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

// output runs a shell script and returns what it wrote.
func output(ctx context.Context, t *testing.T, c *guest.Client, script string) string {
	t.Helper()
	var out, errs bytes.Buffer
	exit, err := c.Run(ctx, engine.Command{Args: sh(script), Stdout: &out, Stderr: &errs})
	if err != nil || exit.Status() != 0 {
		t.Fatalf("%s: %+v %v\n%s%s", script, exit, err, &out, &errs)
	}
	return strings.TrimSpace(out.String())
}

// RunExec runs the cases of commands. The guest needs /bin/sh, cat, head, mkfifo, rm, sleep, setsid
// and dd, for example from busybox.
func RunExec(t *testing.T, connect Connector) {
	cases := []struct {
		name string
		run  func(context.Context, *testing.T, *guest.Client)
	}{
		{"Exits", exits}, {"Refusals", refusals}, {"Environment", environment}, {"Streams", streams},
		{"BinaryStdin", binaryStdin}, {"StdinIgnored", stdinIgnored}, {"SlowReader", slowReader}, {"BrokenWriter", brokenWriter},
		{"Signals", signals}, {"Timeout", timeout}, {"Cancel", cancel}, {"DoubleFork", doubleFork},
		{"Leftovers", leftovers},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(bounded(t), t, connect(t)) })
	}
}

func exits(ctx context.Context, t *testing.T, c *guest.Client) {
	for _, tc := range []struct {
		script string
		want   engine.Exit
		status int
	}{
		{"exit 0", engine.Exit{}, 0},
		{"exit 37", engine.Exit{Code: 37}, 37},
		{"exit 255", engine.Exit{Code: 255}, 255},
		{"kill -9 $$", engine.Exit{Signal: engine.SIGKILL}, 137},
		{"kill -15 $$", engine.Exit{Signal: engine.SIGTERM}, 143},
		{"no-such-command-here", engine.Exit{Code: 127}, 127},
	} {
		exit, err := c.Run(ctx, engine.Command{Args: sh(tc.script)})
		if err != nil || exit != tc.want || exit.Status() != tc.status {
			t.Errorf("%q: %+v (%d), %v; want %+v (%d)", tc.script, exit, exit.Status(), err, tc.want, tc.status)
		}
	}
}

func refusals(ctx context.Context, t *testing.T, c *guest.Client) {
	long := strings.Repeat("x", 128<<10)
	for _, tc := range []struct {
		name string
		cmd  engine.Command
		kind fault.Kind
	}{
		{"no command", engine.Command{}, fault.InvalidArgs},
		{"not in PATH", engine.Command{Args: []string{"no-such-command-here"}}, fault.NotFound},
		{"no such file", engine.Command{Args: []string{"/no/such/file"}}, fault.NotFound},
		{"no such directory", engine.Command{Args: sh("true"), Dir: "/no/such/dir"}, fault.NotFound},
		{"a file as directory", engine.Command{Args: sh("true"), Dir: "/proc/version"}, fault.NotFound},
		{"a directory", engine.Command{Args: []string{"/etc"}}, fault.Rejected},
		{"not executable", engine.Command{Args: []string{"/proc/version"}}, fault.Rejected},
		{"NUL", engine.Command{Args: []string{"/bin/sh", "a\x00b"}}, fault.InvalidArgs},
		{"long argument", engine.Command{Args: []string{"/bin/sh", long}}, fault.InvalidArgs},
	} {
		_, err := c.Exec(ctx, tc.cmd)
		if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Kind != tc.kind {
			t.Errorf("%s: %v, want kind %s", tc.name, err, tc.kind)
		}
	}
}

func environment(ctx context.Context, t *testing.T, c *guest.Client) {
	var out bytes.Buffer
	exit, err := c.Run(ctx, engine.Command{
		Args: append(sh(`echo "$PWD|$1|$A|$B|${HOME-unset}"`), "name", "a \xff\n'b"),
		Env:  []string{"PATH=/bin", "A=1", "B=\xfe="}, Dir: "etc", Stdout: &out,
	})
	if want := "/etc|a \xff\n'b|1|\xfe=|unset\n"; err != nil || exit.Code != 0 || out.String() != want {
		t.Errorf("%+v %v %q, want %q", exit, err, out.String(), want)
	}
	if got := output(ctx, t, c, `echo $HOME; ulimit -n >/dev/null && echo ok; umask`); got != "/root\nok\n0022" {
		t.Errorf("a command starts with %q", got)
	}
}

func streams(ctx context.Context, t *testing.T, c *guest.Client) {
	var out, errs bytes.Buffer
	exit, err := c.Run(ctx, engine.Command{Args: sh(`echo out; echo err >&2; cat; echo end`), Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs})
	if err != nil || exit.Code != 0 || out.String() != "out\nin\nend\n" || errs.String() != "err\n" {
		t.Errorf("%+v %v, out %q, err %q", exit, err, &out, &errs)
	}
	out.Reset()
	// Without Stdin the input is empty; without Stderr errors are discarded.
	if exit, err = c.Run(ctx, engine.Command{Args: sh(`echo lost >&2; cat; echo done`), Stdout: &out}); err != nil || exit.Code != 0 || out.String() != "done\n" {
		t.Errorf("%+v %v %q", exit, err, &out)
	}
	// Answers come before the input ends.
	in, feed := io.Pipe()
	read, outw := io.Pipe()
	p, err := c.Exec(ctx, engine.Command{Args: sh(`while read x; do echo "<$x>"; done`), Stdin: in, Stdout: outw})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		fmt.Fprintf(feed, "%d\n", i)
		buf := make([]byte, 64)
		n, err := read.Read(buf)
		if want := fmt.Sprintf("<%d>\n", i); err != nil || string(buf[:n]) != want {
			t.Fatalf("%q %v, want %q", buf[:n], err, want)
		}
	}
	feed.Close()
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("%+v %v", exit, err)
	}
}

func binaryStdin(ctx context.Context, t *testing.T, c *guest.Client) {
	const size = 8<<20 + 13
	rnd := rand.NewChaCha8([32]byte{1})
	sent, got := sha256.New(), sha256.New()
	exit, err := c.Run(ctx, engine.Command{Args: []string{"cat"}, Stdin: io.TeeReader(io.LimitReader(rnd, size), sent), Stdout: got})
	if err != nil || exit.Code != 0 || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("%+v %v, %x came back as %x", exit, err, sent.Sum(nil), got.Sum(nil))
	}
}

// stdinIgnored runs commands beside others that do not read their input.
func stdinIgnored(ctx context.Context, t *testing.T, c *guest.Client) {
	endless := func() io.Reader { return rand.NewChaCha8([32]byte{2}) }
	var stuck []engine.Process
	stuckCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range 8 {
		p, err := c.Exec(stuckCtx, engine.Command{Args: []string{"sleep", "1000"}, Stdin: endless()})
		if err != nil {
			t.Fatal(err)
		}
		stuck = append(stuck, p)
	}
	if exit, err := c.Run(ctx, engine.Command{Args: sh("head -c 10 >/dev/null; exit 3"), Stdin: endless()}); err != nil || exit.Code != 3 {
		t.Errorf("beside them: %+v %v", exit, err)
	}
	if err := stuck[0].Signal(ctx, engine.SIGKILL); err != nil {
		t.Error(err)
	}
	if exit, err := stuck[0].Wait(); err != nil || exit.Signal != engine.SIGKILL {
		t.Errorf("%+v %v", exit, err)
	}
}

// slowReader reads output slowly. It gets all of it, and the guest program does not buffer it.
func slowReader(ctx context.Context, t *testing.T, c *guest.Client) {
	const mib = 32 // under emulation each costs a quarter of a second
	const growth = 16 << 20
	before := mustInfo(ctx, t, c).OwnMemory
	var n atomic.Int64
	var once sync.Once
	paused := make(chan struct{})
	slow := writerFunc(func(b []byte) (int, error) {
		once.Do(func() { time.Sleep(time.Second); close(paused) })
		if bytes.Count(b, []byte{0}) != len(b) {
			return 0, errors.New("a byte that was not sent")
		}
		n.Add(int64(len(b)))
		return len(b), nil
	})
	p, err := c.Exec(ctx, engine.Command{Args: sh(fmt.Sprintf("dd if=/dev/zero bs=1048576 count=%d 2>/dev/null", mib)), Stdout: slow})
	if err != nil {
		t.Fatal(err)
	}
	<-paused // by now the guest has read what it can
	if during := mustInfo(ctx, t, c).OwnMemory; during > before+growth {
		t.Errorf("the guest program grew from %d to %d bytes", before, during)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 || n.Load() != mib<<20 {
		t.Errorf("%+v %v, %d bytes", exit, err, n.Load())
	}
}

func brokenWriter(ctx context.Context, t *testing.T, c *guest.Client) {
	broken := errors.New("broken")
	p, err := c.Exec(ctx, engine.Command{Args: sh("while :; do echo y; done"), Stdout: writerFunc(func([]byte) (int, error) { return 0, broken })})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); !errors.Is(err, broken) {
		t.Error(err)
	}
	waitIdle(ctx, t, c)
}

func signals(ctx context.Context, t *testing.T, c *guest.Client) {
	for _, s := range []engine.Signal{engine.SIGHUP, engine.SIGINT, engine.SIGUSR1, engine.SIGTERM} {
		ready := newWaiter("ready")
		p, err := c.Exec(ctx, engine.Command{
			Args:   sh(fmt.Sprintf(`trap 'echo got; exit %d' %d; echo ready; while :; do sleep 0.1; done`, 40+s, s)),
			Stdout: ready,
		})
		if err != nil {
			t.Fatal(err)
		}
		ready.wait(ctx, t)
		if err := p.Signal(ctx, s); err != nil {
			t.Error(err)
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 40+int(s) || !strings.Contains(ready.String(), "got") {
			t.Errorf("%v: %+v %v %q", s, exit, err, ready)
		}
		if err := p.Signal(ctx, s); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a signal to an ended command: %v", err)
		}
		if err := p.Signal(ctx, 1000); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("signal 1000: %v", err)
		}
	}
}

func timeout(ctx context.Context, t *testing.T, c *guest.Client) {
	exit, err := c.Run(ctx, engine.Command{Args: []string{"sleep", "1000"}, Timeout: 200 * time.Millisecond})
	if want := (engine.Exit{Signal: engine.SIGTERM, TimedOut: true}); err != nil || exit != want {
		t.Errorf("%+v %v, want %+v", exit, err, want)
	}
	// A command that ignores SIGTERM is killed; one that obeys late is not.
	for _, tc := range []struct {
		script string
		grace  time.Duration
		want   engine.Exit
	}{
		{`trap "" TERM; echo ready; while :; do sleep 1; done`, 300 * time.Millisecond, engine.Exit{Signal: engine.SIGKILL, TimedOut: true}},
		{`trap "exit 9" TERM; echo ready; while :; do sleep 0.1; done`, time.Minute, engine.Exit{Code: 9, TimedOut: true}},
	} {
		// Once the trap is set within the time, however busy the host is.
		for allowed := time.Second; ; allowed *= 3 {
			var out bytes.Buffer
			exit, err := c.Run(ctx, engine.Command{Args: sh(tc.script), Timeout: allowed, Grace: tc.grace, Stdout: &out})
			if err == nil && exit.TimedOut && out.Len() == 0 && allowed < patience {
				continue
			}
			if err != nil || exit != tc.want {
				t.Errorf("%s: %+v %v, want %+v", tc.script, exit, err, tc.want)
			}
			break
		}
	}
}

func cancel(ctx context.Context, t *testing.T, c *guest.Client) {
	runCtx, cancel := context.WithCancel(ctx)
	p, err := c.Exec(runCtx, engine.Command{Args: sh(`sleep 1000 & sleep 1000`), Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	deadline, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := c.Run(deadline, engine.Command{Args: []string{"sleep", "1000"}}); fault.KindOf(err) != fault.Timeout {
		t.Error(err)
	}
	waitIdle(ctx, t, c)
}

// doubleFork starts a process that leaves its parent, session and group. It ends with the command.
func doubleFork(ctx context.Context, t *testing.T, c *guest.Client) {
	ready := newWaiter("ready")
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.Exec(runCtx, engine.Command{
		Args:   sh(`(setsid sh -c 'trap "" TERM HUP; echo ready, pid $$; while :; do sleep 1; done' &) ; sleep 1000`),
		Stdout: ready, Grace: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ready.wait(ctx, t)
	var pid int
	if _, err := fmt.Sscanf(ready.String(), "ready, pid %d", &pid); err != nil {
		t.Fatal(err, ready)
	}
	cancel()
	_, _ = p.Wait()
	waitIdle(ctx, t, c)
	// It may stay a zombie if the guest is not a real machine.
	if got := output(ctx, t, c, fmt.Sprintf(`grep -s "^State:" /proc/%d/status || true`, pid)); got != "" && !strings.Contains(got, "Z") {
		t.Errorf("process %d is in %s", pid, got)
	}
}

// leftovers runs a command whose helper still writes when the first process has ended. Another
// helper that never ends does not keep the command.
func leftovers(ctx context.Context, t *testing.T, c *guest.Client) {
	// The helper waits for the shell's end and then starts nothing, which could take too long.
	const late = `f=/tmp/osaurus-test.$$; mkfifo $f; (read end <$f; echo late) & exec 3>$f; rm $f;`
	// On a busy host it can have no processor within engine.Linger, but not every time.
	for left := 5; ; left-- {
		var out bytes.Buffer
		exit, err := c.Run(ctx, engine.Command{Args: sh(late + ` sleep 1000 3>&- & echo first`), Stdout: &out})
		waitIdle(ctx, t, c)
		if err == nil && exit.Code == 0 && out.String() == "first\n" && left > 0 {
			continue
		}
		if err != nil || exit.Code != 0 || out.String() != "first\nlate\n" {
			t.Errorf("%+v %v %q", exit, err, &out)
		}
		return
	}
}
