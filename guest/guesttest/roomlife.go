package guesttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// lifeCases check a room's environment.
func lifeCases() []roomCase {
	return []roomCase{{"Login", login}, {"Terminal", terminal}, {"Programs", ordinaryPrograms}, {"Together", shareFolder}}
}

// moreLifeCases depend on PID 1 only, not on the distribution.
func moreLifeCases() []roomCase {
	return []roomCase{
		{"Ensure", ensureTwice}, {"Refusals", refuseCommands}, {"Streams", roomStreams}, {"Idle", idleTimeout}, {"Bounded", boundedOutput},
		{"Usage", roomUsage}, {"Died", roomDied},
	}
}

func login(ctx context.Context, t *testing.T, alice, _ *agent) {
	out, exit := alice.run(ctx, t, `echo "$HOME|$USER|$LOGNAME|$LANG|$PWD|$(id -u):$(id -g)|$(umask)"; [ -x "$SHELL" ] && echo shell; touch mine .venv/heavy && ls -d mine; ulimit -c; uname -n; cat /etc/hostname`)
	want := fmt.Sprintf("%s|agent-alice|agent-alice|C.UTF-8|%s|2001:2001|0022\nshell\nmine\n0\nalice\nalice", alice.Home, alice.Home)
	if exit.Status() != 0 || out != want {
		t.Errorf("%+v\n%s\nwant\n%s", exit, out, want)
	}
	if _, err := os.Stat(alice.onHost() + "/mine"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(alice.onHost() + "/.venv/heavy"); err == nil {
		t.Error("a heavy folder is on the share")
	}
	out, exit = alice.command(ctx, t, engine.Command{Args: sh(`echo "$HOME|$USER|$A|$PWD"`), RoomRoot: true, Env: []string{"A=1", "USER=other"}, Dir: "tmp"})
	if exit.Status() != 0 || out != "/root|other|1|/tmp" {
		t.Errorf("as root: %+v %s", exit, out)
	}
	if out, exit = alice.command(ctx, t, engine.Command{Args: sh("pwd"), Dir: ".cache"}); exit.Status() != 0 || out != alice.Home+"/.cache" {
		t.Errorf("in a folder of the home: %+v %s", exit, out)
	}
	out, _ = alice.run(ctx, t, `while read a b; do case $a in Cap*|NoNewPrivs:|Seccomp:) echo $a$b;; esac; done < /proc/self/status`)
	want = "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2"
	if out != want {
		t.Errorf("an agent's process has\n%s", out)
	}
}

// shareFolder has one agent write to the shared folder while another looks at it all the time. Where
// the guest caches the one who looked as the owner, the other must not be refused.
func shareFolder(ctx context.Context, t *testing.T, alice, bob *agent) {
	const dir = "/workspace/shared"
	if out, exit := alice.run(ctx, t, "echo hello >"+dir+"/of-alice"); exit.Status() != 0 {
		t.Fatal(out)
	}
	alice.begin(ctx, t, "while :; do ls -la "+dir+" >/dev/null; done")
	if out, exit := bob.run(ctx, t, "cd "+dir+` && for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		mkdir of-bob && rmdir of-bob && cat of-alice || exit 1
		sleep 0.3
	done; rm of-alice`); exit.Status() != 0 || strings.Count(out, "hello") != 12 {
		t.Errorf("bob in a folder that alice looks at: %+v %s", exit, out)
	}
}

func ensureTwice(ctx context.Context, t *testing.T, alice, _ *agent) {
	p := alice.begin(ctx, t, "sleep 1000")
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if e, err := alice.suite.Client.EnsureRoom(ctx, alice.RoomConfig, alice.token); e.Made || err != nil {
				t.Errorf("an existing room: made again %v, %v", e.Made, err)
			}
		})
	}
	wg.Wait()
	alive(ctx, t, alice, p)
	carol := alice.suite.describe(t, "carol", 2003)
	var made atomic.Int32
	for range 10 {
		wg.Go(func() {
			e, err := alice.suite.Client.EnsureRoom(ctx, carol.RoomConfig, "")
			if err != nil || len(e.Lacks) > 0 {
				t.Errorf("%v %q", err, e.Lacks)
			}
			if e.Made {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("ten concurrent calls made %d rooms", n)
	}
	if err := alice.suite.Client.RemoveRoom(ctx, carol.User, true); err != nil {
		t.Error(err)
	}
}

func refuseCommands(ctx context.Context, t *testing.T, alice, _ *agent) {
	c := alice.suite.Client
	other := alice.RoomConfig
	other.UID = 2999
	if _, err := c.EnsureRoom(ctx, other, ""); fault.KindOf(err) != fault.Rejected {
		t.Errorf("another user id: %v", err)
	}
	alice.asRoot(ctx, t, "mkdir -m 700 /closed")
	for _, tc := range []struct {
		user config.LinuxUser
		cmd  engine.Command
		kind fault.Kind
	}{
		{"agent-nobody", engine.Command{Args: sh("true")}, fault.NotFound},
		{alice.User, engine.Command{Args: []string{"no-such-command-here"}}, fault.NotFound},
		{alice.User, engine.Command{Args: []string{"/etc"}}, fault.Rejected},
		{alice.User, engine.Command{Args: sh("true"), Dir: "/no/such"}, fault.NotFound},
		{alice.User, engine.Command{Args: sh("true"), Dir: "/closed"}, fault.Rejected},
	} {
		if _, err := c.Room(tc.user).Exec(ctx, tc.cmd); fault.KindOf(err) != tc.kind {
			t.Errorf("%+v: %v, want %s", tc.cmd, err, tc.kind)
		}
	}
}

// roomStreams opens the standard streams by their names.
func roomStreams(ctx context.Context, t *testing.T, alice, _ *agent) {
	const named = "cat /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr"
	for _, root := range []bool{false, true} {
		var out, errs bytes.Buffer
		exit, err := engine.Run(ctx, alice.room(), engine.Command{Args: sh(named), RoomRoot: root, Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs})
		if err != nil || exit.Code != 0 || out.String() != "in\nout\n" || errs.String() != "err\n" {
			t.Errorf("by name, as root %v: %+v %v %q %q", root, exit, err, &out, &errs)
		}
	}
}

func terminal(ctx context.Context, t *testing.T, alice, _ *agent) {
	for _, room := range []config.LinuxUser{alice.User, ""} {
		in, keys := io.Pipe()
		shown := newWaiter("resized")
		p, err := alice.suite.Client.Room(room).Exec(ctx, engine.Command{
			Args:  sh(`[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo tty $TERM; exec 3<>/dev/tty && echo controlling >&3; trap 'echo resized' WINCH; echo waiting; while :; do sleep 0.1; done`),
			Stdin: in, Stdout: shown, Env: []string{"PATH=/usr/bin:/bin"}, Terminal: &engine.Terminal{Size: engine.TerminalSize{Rows: 33, Cols: 77}, Term: "vt100"},
		})
		if err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, func() bool { return strings.Contains(shown.String(), "waiting") })
		if err := p.Resize(engine.TerminalSize{Rows: 40, Cols: 100}); err != nil {
			t.Error(err)
		}
		shown.wait(ctx, t)
		fmt.Fprint(keys, "\x03") // Ctrl-C, which the terminal makes a signal
		exit, err := p.Wait()
		if err != nil || exit.Signal != engine.SIGINT && exit.Code != 130 || !strings.Contains(shown.String(), "tty vt100") || !strings.Contains(shown.String(), "controlling") {
			t.Errorf("in room %q: %+v %v %q", room, exit, err, shown)
		}
		keys.Close()
	}
	// The end of the input is sent as Ctrl-D.
	var out bytes.Buffer
	exit, err := engine.Run(ctx, alice.room(), engine.Command{
		Args: sh(`read x; cat >/dev/null; echo got $x`), Stdin: strings.NewReader("typed\n"), Stdout: &out, Terminal: &engine.Terminal{},
	})
	if err != nil || exit.Code != 0 || !strings.Contains(out.String(), "got typed") {
		t.Errorf("%+v %v %q", exit, err, &out)
	}
}

func idleTimeout(ctx context.Context, t *testing.T, alice, _ *agent) {
	exit, err := engine.Run(ctx, alice.room(), engine.Command{Args: sh("sleep 1000"), IdleTimeout: 300 * time.Millisecond, Grace: 100 * time.Millisecond})
	if err != nil || !exit.Idle || exit.TimedOut || exit.Signal == 0 {
		t.Errorf("%+v %v", exit, err)
	}
	// A command that writes is not idle, although it takes longer than the idle time. A busy host may
	// take longer than that to start a sleep.
	for seconds := 2; ; seconds *= 4 {
		script := fmt.Sprintf("for i in 1 2 3 4; do sleep %d; echo $i; done", seconds)
		exit, err = engine.Run(ctx, alice.room(), engine.Command{Args: sh(script), Stdout: io.Discard, IdleTimeout: time.Duration(3*seconds) * time.Second})
		if err == nil && exit.Idle && seconds < 32 {
			continue
		}
		if err != nil || exit.Idle || exit.Code != 0 {
			t.Errorf("%+v %v", exit, err)
		}
		break
	}
}

func boundedOutput(ctx context.Context, t *testing.T, alice, _ *agent) {
	const limit, size = 1000, 100000
	var out, errs bytes.Buffer
	exit, err := engine.Run(ctx, alice.room(), engine.Command{
		Args: sh(fmt.Sprintf(`echo first; head -c %d /dev/zero; echo last; echo short >&2`, size)), Stdout: &out, Stderr: &errs, MaxOutput: limit,
	})
	whole := "first\n" + strings.Repeat("\x00", size) + "last\n"
	want := whole[:limit*2/5] + whole[len(whole)-limit*3/5:]
	if err != nil || exit.Code != 0 || out.String() != want || exit.StdoutTruncated != uint64(len(whole)-limit) || errs.String() != "short\n" || exit.StderrTruncated != 0 {
		t.Errorf("%+v %v, %d bytes", exit, err, out.Len())
	}
}

func roomUsage(ctx context.Context, t *testing.T, alice, bob *agent) {
	p := alice.begin(ctx, t, "head -c 1000000 /dev/zero > /tmp/million; exec sleep 1000")
	c := alice.suite.Client
	eventually(ctx, t, func() bool {
		list, more, err := c.RoomProcesses(ctx, alice.User, "")
		return err == nil && !more && len(list) == 1 && int(list[0].PID) == p.PID() && strings.HasPrefix(list[0].Command, "sleep 1000") && list[0].User == string(alice.User) && list[0].Resident > 0
	})
	use, err := c.RoomUsages(ctx, "")
	if err != nil || len(use) != 2 || use[0].User != string(alice.User) || use[1].User != string(bob.User) {
		t.Fatalf("%+v %v", use, err)
	}
	if u := use[0]; u.CPU <= 0 || u.Memory == 0 || u.PIDs != 1 || u.Disk < 1000000 || u.DiskFiles == 0 || u.Limits.PIDs != 512 || u.Limits.Memory == 0 || time.Since(u.Made) > time.Hour {
		t.Errorf("%+v", u)
	}
	alice.run(ctx, t, "rm /tmp/million")
}

// roomDied kills the first process of bob's room, and the kernel all others. The next command gets a new room.
func roomDied(ctx context.Context, t *testing.T, _, bob *agent) {
	p, err := bob.room().Exec(ctx, engine.Command{Args: sh("sleep 1000")})
	if err != nil {
		t.Fatal(err)
	}
	output(ctx, t, bob.suite.Client, fmt.Sprintf(`ns=$(readlink /proc/%d/ns/pid); for p in $(ls /proc | grep '^[0-9]*$' | sort -n); do [ "$(readlink /proc/$p/ns/pid)" = "$ns" ] && kill -9 $p && break; done`, p.PID()))
	if exit, err := p.Wait(); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a command of a room that died: %+v %v", exit, err)
	}
	if out, exit := bob.run(ctx, t, "echo again"); out != "again" || exit.Status() != 0 {
		t.Errorf("after it: %+v %s", exit, out)
	}
	bob.isAnswered(ctx, t)
}
