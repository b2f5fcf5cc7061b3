//go:build linux

package shell_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/shell"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// person is an attached person.
type person struct {
	*shell.Viewer
	t testing.TB

	mu   sync.Mutex
	seen strings.Builder
	end  *guestpb.ShellEnded
}

// The prompt that a person sees, and that the transcript ends with, is current.
func TestPromptIsTrue(t *testing.T) {
	r := newRig(t, true)
	ends := func(words string) {
		t.Helper()
		r.transcript(func(s string) bool { return strings.HasSuffix(s, words) })
	}
	for _, mode := range []string{"emacs", "vi"} {
		r.run("cd /; set -o " + mode + "; PS1='<\\w> '; clear")
		r.want("cd /usr; echo went", 0, "went\n")
		ends("$ cd /usr; echo went\nwent\n")
		r.run("true")
		r.run("PROMPT_COMMAND='echo \"[$mark]\"'; mark=x") // nobody waits for that
		ends("; mark=x\n")
		r.run("cd /; mark=y")
		p := r.attach(24, 80)
		ends("[y]\n</> ")

		r.run("unset PROMPT_COMMAND; PS1='(env) \\w> '")
		ends("\n(env) /> ")
		p.types("echo half")
		ends("(env) /> echo half")
		r.run("cd /tmp")
		p.types(" typed\r")
		r.transcript(has("\nhalf typed\n(env) /tmp> "))
		for range 20 { // what comes at once meets the shell at its prompt
			r.want("cd /usr; pwd", 0, "/usr\n")
			r.want("cd /tmp; pwd", 0, "/tmp\n")
		}
		if got := r.transcript(has("> ")); strings.Contains(got, "^") {
			t.Errorf("%s: keys are seen: %q", mode, got)
		}
		p.types("stty -a | grep -o ' icanon'; echo do''ne\r") // as programs expect it
		r.transcript(has("\n icanon\ndone\n"))
		p.Close()
	}
}

// attach attaches a person to the rig's session.
func (r *rig) attach(rows, cols uint32) *person {
	r.t.Helper()
	v, err := r.Attach(context.Background(), &guestpb.ShellOpen{
		Shell: &guestpb.Shell{Session: r.session}, Size: &guestpb.Resize{Rows: rows, Cols: cols},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	p := &person{Viewer: v, t: r.t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			b, end, err := v.Next(ctx)
			p.mu.Lock()
			p.seen.Write(b)
			p.end = end
			p.mu.Unlock()
			if err != nil {
				if !errors.Is(err, io.EOF) && ctx.Err() == nil {
					r.t.Error(err)
				}
				return
			}
		}
	}()
	r.t.Cleanup(func() { cancel(); <-done; v.Close() })
	return p
}

func (p *person) types(text string) {
	p.t.Helper()
	if err := p.Type(context.Background(), []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until the person has seen some words one after another.
func (p *person) sees(words ...string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		rest, found := p.seen.String(), true
		p.mu.Unlock()
		all := rest
		for _, w := range words {
			var ok bool
			if _, rest, ok = strings.Cut(rest, w); !ok {
				found = false
			}
		}
		if found {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%q is not in %q", words, all)
		}
	}
}

// A person and an agent share one shell and one transcript.
func TestPersonAndAgent(t *testing.T) {
	r := newRig(t, true)
	r.run("X=agent; echo before")
	p := r.attach(30, 100)
	p.sees("$ X=agent; echo before\r\n", "before\r\n")
	p.types("PS1='> '; echo I see $X; Y=person\r")
	p.sees("I see agent\r\n", "> ")
	r.want("echo $Y; stty size </dev/tty; tty </dev/tty >/dev/null && echo a terminal", 0, "person\n30 100\na terminal\n")
	p.sees("$ echo $Y", "person\r\n", "a terminal\r\n", "> ")

	// What is half typed stays, and is not run.
	p.types("echo half")
	p.sees("> echo half")
	r.want("echo between", 0, "between\n")
	p.sees("$ echo between\r\n", "between\r\n", "> echo half")
	p.types(" done\r")
	p.sees("half done\r\n")
	r.want("history 1 | grep -c between", 1, "0\n")

	if err := p.Resize(&guestpb.Resize{Rows: 50, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	r.want("stty size </dev/tty", 0, "50 120\n")

	q := r.attach(24, 80)
	q.types("echo $((40+2))\r")
	q.sees("42\r\n")
	p.sees("42\r\n")
	got := r.transcript(has("42\n"))
	for _, want := range []string{"$ X=agent; echo before\nbefore\n", "> echo half done\nhalf done\n", "$ echo between\nbetween\n", "> echo $((40+2))\n42\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the transcript:\n%s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\r\x07") || strings.Contains(got, "between\n\n") {
		t.Errorf("the transcript is %q", got)
	}
	p.types("exit 5\r")
	p.sees("exit\r\n")
	for _, x := range []*person{p, q} {
		timetest.Eventually(t, "the end", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.end.GetCode() == 5
		})
	}
	if a := r.run("echo $Y"); !a.Restarted || string(a.Stdout.Head) != "\n" {
		t.Errorf("%q %s", a.Stdout.Head, flags(a))
	}
}

// Calls wait while a person's program has the terminal, even after the person has left.
func TestPersonsProgram(t *testing.T) {
	r := newRig(t, true)
	p := r.attach(24, 80)
	p.types("cat\r")
	p.sees("cat\r\n")
	timetest.Eventually(t, "a person's program", func() bool { return r.sessions()[0].State == string(engine.SessionPerson) })
	p.types("typed\r")
	p.sees("typed\r\n", "typed\r\n")
	p.Close()
	// Once the call has its turn within its time, on however busy a host.
	for timeout := 300 * time.Millisecond; ; timeout *= 4 {
		_, err := r.try(within("echo agent", timeout))
		if fault.KindOf(err) != fault.Unavailable || timeout > patience {
			t.Fatalf("a call beside a person's program: %v", err)
		}
		if strings.Contains(err.Error(), "person") {
			break
		}
	}
	q := r.attach(24, 80)
	q.sees("typed\r\n")
	done := make(chan *guestpb.ShellRunResponse)
	go func() { done <- r.run("echo agent") }()
	time.Sleep(100 * time.Millisecond)
	q.types("\x04")
	if a := <-done; string(a.Stdout.Head) != "agent\n" || a.Restarted {
		t.Errorf("%q %s", a.Stdout.Head, flags(a))
	}
	q.sees("$ echo agent\r\n", "agent\r\n")
}

// A full-screen program that ends with its shell does not hide the output of the next shell.
func TestFullScreenEndsWithItsShell(t *testing.T) {
	const otherScreen = "\x1b[?1049h"
	r := newRig(t, true)
	p := r.attach(24, 80)
	r.run("printf '\\033[?1049h' >/dev/tty")
	p.sees(otherScreen)
	r.run("kill -9 $$")
	r.run("echo sho''wn >/dev/tty")
	r.transcript(has("\nshown\n"))
	q := r.attach(24, 80)
	q.types("echo mo''re\r")
	q.sees("shown\r\n", "more\r\n")
	q.mu.Lock()
	defer q.mu.Unlock()
	if seen := q.seen.String(); strings.Contains(seen, otherScreen) {
		t.Errorf("who attaches is put on the other screen: %q", seen)
	}
}

// A stopped shell whose input is full is reported as busy, not as ended.
func TestFullInput(t *testing.T) {
	r := newRig(t, true)
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.run("echo $$").Stdout.Head)))
	if err != nil {
		t.Fatal(err)
	}
	p := r.attach(24, 80)
	timetest.Eventually(t, "the prompt", func() bool { return r.sessions()[0].State == string(engine.SessionIdle) })
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	full, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for err == nil { // by single bytes: there is room for one when there is none for many
		err = p.Type(full, []byte("x"))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := r.try(within("true", 300*time.Millisecond)); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "has its terminal") {
		t.Errorf("a call before a full input: %v", err)
	}
}

// A person answers a command that reads the terminal, and ends another with Ctrl-C.
func TestPersonHelps(t *testing.T) {
	r := newRig(t, true)
	p := r.attach(24, 80)
	done := make(chan *guestpb.ShellRunResponse)
	go func() { done <- r.run("printf 'name? ' >/dev/tty; head -n 1 </dev/tty") }()
	p.sees("name? ")
	p.types("Alice\r\n")
	if a := <-done; strings.TrimSpace(string(a.Stdout.Head)) != "Alice" {
		t.Errorf("%q %s", a.Stdout.Head, flags(a))
	}
	// Not bash itself: what it starts misses a SIGINT just before its execve.
	go func() { done <- r.run("sh -c 'echo begun; exec sleep 60'; echo never") }()
	p.sees("begun\r\n")
	p.types("\x03")
	if a := <-done; !a.Cancelled || a.Code != 130 || string(a.Stdout.Head) != "begun\n" {
		t.Errorf("%d %q %s", a.Code, a.Stdout.Head, flags(a))
	}
	r.want("echo on", 0, "on\n")
	p.types("echo typed again\r")
	p.sees("on\r\n", "typed again\r\n")
}

// An attached person who reads nothing does not block others.
func TestFrozenPerson(t *testing.T) {
	r := newRig(t, true)
	v, err := r.Attach(context.Background(), &guestpb.ShellOpen{Shell: &guestpb.Shell{Session: r.session}, Size: &guestpb.Resize{Rows: 24, Cols: 80}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	p := r.attach(24, 80)
	p.types("yes | head -c 3000000; echo the end\r")
	p.sees("the end\r\n")
	if a := r.run("yes | head -c 3000000"); a.Stdout.Omitted != 3000000-15000 {
		t.Error(flags(a))
	}
	r.want("echo on", 0, "on\n")
	var got []byte
	for len(got) < 64<<10 {
		b, _, err := v.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !strings.Contains(string(got), "output left out") {
		t.Error("nothing says that output was left out")
	}
}

// A session continues the transcript that it is given.
func TestTranscriptIsContinued(t *testing.T) {
	r := newRig(t, true)
	q := within("echo now", 0)
	q.Shell = &guestpb.Shell{Session: r.session, Transcript: "long ago\x1b[2J\n"}
	r.request(q)
	got := r.transcript(has("now\n"))
	if !strings.HasPrefix(got, "long ago[2J\n") || !strings.Contains(got, "$ echo now\nnow\n") {
		t.Errorf("%q", got)
	}
	r.run("seq 100000")
	if got := r.transcript(has("100000\n")); len([]rune(got)) != 10000 {
		t.Errorf("%d characters", len([]rune(got)))
	}
}
