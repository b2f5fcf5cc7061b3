package engine

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// fakeProcess is a command that ends when the test says so, or by a signal.
type fakeProcess struct {
	cmd      Command
	obeys    time.Duration // how long after SIGTERM it ends; 0 is never
	immortal bool

	once sync.Once
	done chan struct{}
	exit Exit
	err  error

	mu      sync.Mutex
	signals []string
}

func (p *fakeProcess) end(exit Exit, err error) {
	p.once.Do(func() { p.exit, p.err = exit, err; close(p.done) })
}

func (p *fakeProcess) Signal(_ context.Context, s Signal) error {
	p.mu.Lock()
	p.signals = append(p.signals, s.Name())
	p.mu.Unlock()
	switch {
	case s == SIGTERM && p.obeys > 0:
		time.AfterFunc(p.obeys, func() { p.end(Exit{}, nil) })
	case s == SIGKILL && !p.immortal:
		p.end(Exit{Signal: SIGKILL}, nil)
	}
	return nil
}

func (p *fakeProcess) sent() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.signals, " ")
}

func (p *fakeProcess) PID() int                  { return 1 }
func (p *fakeProcess) Resize(TerminalSize) error { return nil }
func (p *fakeProcess) Done() <-chan struct{}     { return p.done }
func (p *fakeProcess) Wait() (Exit, error)       { <-p.done; return p.exit, p.err }

// start starts p with a request.
func start(ctx context.Context, p *fakeProcess, req Request) (Handle, error) {
	p.done = make(chan struct{})
	req.Command, req.WorkspaceRoot = Argv("fake"), "/work"
	return NewSandbox(func(ctx context.Context, cmd Command, _ Tenant) (Process, error) {
		p.cmd = cmd
		context.AfterFunc(ctx, func() { p.end(Exit{Signal: SIGTERM}, nil) })
		if cmd.Stdin != nil {
			go io.Copy(io.Discard, cmd.Stdin)
		}
		return p, nil
	}).Start(ctx, req)
}

func TestHandleEnds(t *testing.T) {
	killed := ExitStatus{Code: NoCode, Signal: "KILL"}
	type test = struct {
		name    string
		process *fakeProcess
		req     Request
		do      func(*fakeProcess, Handle)
		want    ExitStatus
		kind    fault.Kind
		signals string
		after   time.Duration
	}
	for _, c := range []test{
		{"by itself", &fakeProcess{}, Request{Timeout: time.Minute}, func(p *fakeProcess, _ Handle) {
			time.Sleep(time.Second)
			p.end(Exit{Code: 3}, nil)
		}, ExitStatus{Code: 3}, "", "", time.Second},
		{"at its timeout", &fakeProcess{}, Request{Timeout: time.Second}, func(*fakeProcess, Handle) {},
			ExitStatus{Code: NoCode, Signal: "KILL", TimedOut: true}, "", "KILL", time.Second},
		{"at the moment of its timeout", &fakeProcess{immortal: true}, Request{Timeout: time.Second}, func(p *fakeProcess, _ Handle) {
			time.Sleep(time.Second + time.Millisecond)
			p.end(Exit{Code: 3}, nil)
		}, ExitStatus{Code: 3}, "", "KILL", time.Second + time.Millisecond},
		{"canceled, and obeys", &fakeProcess{obeys: time.Second}, Request{}, func(_ *fakeProcess, h Handle) { h.Cancel(); h.Cancel() },
			ExitStatus{}, "", "TERM", time.Second},
		{"canceled, and does not obey", &fakeProcess{}, Request{}, func(_ *fakeProcess, h Handle) { h.Cancel() }, killed, "", "TERM KILL", CancelGrace},
		{"closed", &fakeProcess{}, Request{}, func(_ *fakeProcess, h Handle) { _ = h.Close() }, killed, "", "KILL", 0},
		{"cannot be killed", &fakeProcess{immortal: true}, Request{}, func(_ *fakeProcess, h Handle) { _ = h.Close() },
			ExitStatus{Code: NoCode}, fault.Unavailable, "KILL", killLimit},
		{"lost", &fakeProcess{}, Request{}, func(p *fakeProcess, _ Handle) {
			p.end(Exit{}, fault.New(fault.Unavailable, "look", "", nil))
		}, ExitStatus{Code: NoCode}, fault.Unavailable, "", 0},
		{"with an input that fails", &fakeProcess{}, Request{Stdin: io.MultiReader(strings.NewReader("half"), brokenReader{})},
			func(*fakeProcess, Handle) {}, killed, fault.Execution, "KILL", 0},
		{"with too much output", &fakeProcess{}, Request{MaxOutputBytes: 3}, func(p *fakeProcess, _ Handle) {
			_, _ = p.cmd.Stdout.Write([]byte("1234"))
			p.end(Exit{}, nil)
		}, ExitStatus{Truncated: true}, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				h, err := start(t.Context(), c.process, c.req)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				go c.do(c.process, h)
				exit, err := h.Exit(t.Context())
				if took := time.Since(begun); took != c.after {
					t.Errorf("it ends after %s, want %s", took, c.after)
				}
				if exit != c.want || (c.kind == "") != (err == nil) || c.kind != "" && fault.KindOf(err) != c.kind {
					t.Errorf("exit %+v, %v; want %+v, %q", exit, err, c.want, c.kind)
				}
				h.Cancel()
				for range 2 {
					if err := h.Close(); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Hour) // nothing comes later
				if again, _ := h.Exit(t.Context()); again != exit || c.process.sent() != c.signals {
					t.Errorf("afterwards exit %+v, signals %q, want %q", again, c.process.sent(), c.signals)
				}
				c.process.end(Exit{}, nil)
			})
		})
	}
}

// brokenReader fails.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestBrokenInputHasNoEnd checks that a command does not see a failed input as the end of it.
func TestBrokenInputHasNoEnd(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		p := &fakeProcess{immortal: true}
		h, err := start(t.Context(), p, Request{Stdin: brokenReader{}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = p.cmd.Stdin.Read(make([]byte, 1))
			select {
			case <-p.done:
			default:
				t.Error("the command saw the end of its input")
			}
		}()
		time.Sleep(time.Second)
		p.end(Exit{}, nil)
		_ = h.Close()
	})
}

func TestExitOfEndedContext(t *testing.T) {
	p := &fakeProcess{}
	h, err := start(t.Context(), p, Request{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Exit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while it runs: %v", err)
	}
	p.end(Exit{Code: 5}, nil)
	for range 100 {
		if _, err := h.Exit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit, err := h.Exit(ctx); exit.Code != 5 || err != nil {
			t.Fatalf("afterwards %+v, %v", exit, err)
		}
	}
}

func TestCollect(t *testing.T) {
	p := &fakeProcess{}
	h, err := start(t.Context(), p, Request{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = p.cmd.Stdout.Write([]byte("out"))
	_, _ = p.cmd.Stderr.Write([]byte("err"))
	p.end(Exit{Code: 5}, nil)
	got, err := Collect(t.Context(), h)
	if string(got.Stdout) != "out" || string(got.Stderr) != "err" || got.Exit.Code != 5 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestStartIsCanceled checks that a start whose context ends leaves nothing running, even if the
// command has written by then.
func TestStartIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := &fakeProcess{done: make(chan struct{})}
	s := NewSandbox(func(life context.Context, cmd Command, _ Tenant) (Process, error) {
		cancel()
		go func() {
			<-life.Done()
			for _, w := range []io.Writer{cmd.Stdout, cmd.Stderr, cmd.Stdout} {
				if _, err := w.Write(make([]byte, QueueBytes)); err != nil {
					t.Error(err)
				}
			}
			p.end(Exit{}, nil)
		}()
		return p, nil
	})
	_, err := s.Start(ctx, Request{Command: ShellLine("true"), WorkspaceRoot: "/home"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want a canceled start", err)
	}
	select {
	case <-p.done:
	default:
		t.Error("the command still runs")
	}
}
