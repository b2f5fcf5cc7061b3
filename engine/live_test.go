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

// body is a command that does as it is told: obeys SIGTERM after a while, or not
// at all, and dies of SIGKILL, or not.
type body struct {
	live     *Live
	born     chan struct{} // closed when live is there: a timeout may come at once
	obeys    time.Duration // 0: not
	immortal bool

	mu       sync.Mutex
	said     []string
	released int
}

func (b *body) note(what string) {
	<-b.born
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, what)
}

func (b *body) Terminate() {
	b.note("TERM")
	if b.obeys > 0 {
		time.AfterFunc(b.obeys, func() { b.live.End(ExitStatus{Code: 0, Note: "obeyed"}, nil) })
	}
}

func (b *body) Kill() {
	b.note("KILL")
	if !b.immortal {
		b.live.End(ExitStatus{Code: NoCode, Signal: "KILL"}, nil)
	}
}

func (b *body) Release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released++
	return errors.New("release fails")
}

func (b *body) orders() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.said, " ")
}

func begin(b *body, req Request) *body {
	b.born = make(chan struct{})
	b.live = NewLive(req, b)
	close(b.born)
	return b
}

func TestLiveEnds(t *testing.T) {
	killed := ExitStatus{Code: NoCode, Signal: "KILL"}
	for _, c := range []struct {
		name   string
		body   *body
		req    Request
		do     func(*body)
		want   ExitStatus
		kind   fault.Kind
		orders string
		after  time.Duration
	}{
		{"by itself", &body{}, Request{Timeout: time.Minute}, func(b *body) {
			time.Sleep(time.Second)
			b.live.End(ExitStatus{Code: 3}, nil)
			b.live.End(ExitStatus{Code: 4}, errors.New("later"))
		}, ExitStatus{Code: 3}, "", "", time.Second},
		{"at its timeout", &body{}, Request{Timeout: time.Second}, func(*body) {},
			ExitStatus{Code: NoCode, Signal: "KILL", TimedOut: true}, "", "KILL", time.Second},
		{"at the moment of its timeout", &body{immortal: true}, Request{Timeout: time.Second}, func(b *body) {
			time.Sleep(time.Second + time.Millisecond)
			b.live.End(ExitStatus{Code: 3}, nil)
		}, ExitStatus{Code: 3}, "", "KILL", time.Second + time.Millisecond},
		{"canceled, and obeys", &body{obeys: time.Second}, Request{}, func(b *body) { b.live.Cancel(); b.live.Cancel() },
			ExitStatus{Note: "obeyed"}, "", "TERM", time.Second},
		{"canceled, and does not obey", &body{}, Request{}, func(b *body) { b.live.Cancel() }, killed, "", "TERM KILL", CancelGrace},
		{"closed", &body{}, Request{}, func(b *body) { _ = b.live.Close() }, killed, "", "KILL", 0},
		{"cannot be killed", &body{immortal: true}, Request{}, func(b *body) { _ = b.live.Close() },
			ExitStatus{Code: NoCode}, fault.Unavailable, "KILL", killWithin},
		{"lost", &body{}, Request{}, func(b *body) {
			b.live.End(ExitStatus{Code: NoCode}, fault.New(fault.Unavailable, "look", "", nil))
		}, ExitStatus{Code: NoCode}, fault.Unavailable, "", 0},
		{"with an input that fails", &body{}, Request{Stdin: io.MultiReader(strings.NewReader("half"), broken{})}, func(b *body) {
			b.live.Feed(nothing{})
		}, killed, fault.Execution, "KILL", 0},
		{"with too much output", &body{}, Request{MaxOutputBytes: 3}, func(b *body) {
			_, _ = b.live.Stdout().Write([]byte("1234"))
			b.live.End(ExitStatus{}, nil)
		}, ExitStatus{Truncated: true}, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) {
				b := begin(c.body, c.req)
				begun := time.Now()
				go c.do(b)
				exit, err := b.live.Exit(t.Context())
				if took := time.Since(begun); took != c.after {
					t.Errorf("it ends after %s, want %s", took, c.after)
				}
				if exit != c.want || (c.kind == "") != (err == nil) || c.kind != "" && fault.KindOf(err) != c.kind {
					t.Errorf("exit %+v, %v; want %+v, %q", exit, err, c.want, c.kind)
				}
				b.live.Cancel()
				for range 2 {
					if err := b.live.Close(); err == nil || err.Error() != "release fails" {
						t.Errorf("Close = %v, want what Release says", err)
					}
				}
				if again, _ := b.live.Exit(t.Context()); again != exit || b.released != 1 || b.orders() != c.orders {
					t.Errorf("afterwards exit %+v, released %d times, told %q, want %q", again, b.released, b.orders(), c.orders)
				}
				time.Sleep(time.Hour) // nothing comes later
				if b.orders() != c.orders {
					t.Errorf("later it was told %q", b.orders())
				}
			})
		})
	}
}

// broken is an input that fails.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// nothing is a command's end of an input that takes everything.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Close() error                { return nil }

// end is a command's end of an input that knows whether it was closed.
type end struct {
	nothing
	closed chan struct{}
	once   sync.Once
}

func (e *end) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func TestFeed(t *testing.T) {
	hanging, hang := io.Pipe()
	defer hang.Close()
	for _, c := range []struct {
		name   string
		stdin  io.Reader
		endsIt bool // the input's end closes, or only the command's
	}{
		{"no input", nil, true},
		{"all of it", strings.NewReader("text"), true},
		{"an input that hangs", hanging, false},
		{"an input that fails", broken{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(&body{immortal: true}, Request{Stdin: c.stdin})
			w := &end{closed: make(chan struct{})}
			b.live.Feed(w)
			if !c.endsIt {
				select {
				case <-w.closed:
					t.Error("the command saw the end of an input that has not ended")
				case <-time.After(50 * time.Millisecond):
				}
				b.live.End(ExitStatus{}, nil)
			}
			<-w.closed
			b.live.End(ExitStatus{}, nil)
			late := &end{closed: make(chan struct{})}
			b.live.Feed(late)
			<-late.closed
		})
	}
}

func TestExitOfEndedContext(t *testing.T) {
	b := begin(&body{}, Request{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.live.Exit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while it runs: %v", err)
	}
	b.live.End(ExitStatus{Code: 5}, nil)
	for range 100 {
		if exit, err := b.live.Exit(ctx); exit.Code != 5 || err != nil {
			t.Fatalf("afterwards %+v, %v", exit, err)
		}
	}
}

func TestCollect(t *testing.T) {
	b := begin(&body{}, Request{})
	_, _ = b.live.Stdout().Write([]byte("out"))
	_, _ = b.live.Stderr().Write([]byte("err"))
	b.live.End(ExitStatus{Code: 5}, nil)
	got, err := Collect(t.Context(), b.live)
	if string(got.Stdout) != "out" || string(got.Stderr) != "err" || got.Exit.Code != 5 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRecorded(t *testing.T) {
	b := begin(&body{}, Request{})
	defer b.live.Close()
	var seen []Tenant
	refuse := errors.New("the record is full")
	s := Recorded(started{b.live}, func(req Request) error {
		seen = append(seen, req.Tenant)
		if req.Tenant == "refused" {
			return refuse
		}
		return nil
	})
	good := Request{Command: Argv("true"), WorkspaceRoot: "/work", Tenant: "alice"}
	refused, bad := good, good
	refused.Tenant, bad.Tenant, bad.WorkspaceRoot = "refused", "bad", "."
	if h, err := s.Start(t.Context(), good); h != b.live || err != nil {
		t.Errorf("Start = %v, %v", h, err)
	}
	if h, err := s.Start(t.Context(), refused); h != nil || err != refuse {
		t.Errorf("Start of what cannot be recorded = %v, %v", h, err)
	}
	if _, err := s.Start(t.Context(), bad); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("Start of a bad request = %v", err)
	}
	if len(seen) != 2 || seen[0] != "alice" {
		t.Errorf("recorded: %v", seen)
	}
}

// started is a sandbox whose commands have begun already.
type started struct{ h Handle }

func (s started) Start(context.Context, Request) (Handle, error) { return s.h, nil }
