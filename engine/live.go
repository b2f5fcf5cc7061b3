package engine

import (
	"context"
	"io"
	"sync"
	"time"

	"osaurus-sandbox/internal/fault"
)

// Means lets Live end a backend's command. The methods may be called at any time. After
// the end of the command the first two do nothing.
type Means interface {
	Terminate()     // asks everything that the command consists of to end: SIGTERM
	Kill()          // ends it, whatever it does about that: SIGKILL
	Release() error // frees what is left of it; called once, after its end
}

// Live is a Handle for a backend's command. It implements timeout, cancellation, input,
// output and exit.
//
// The backend writes the command's output to Stdout and Stderr, and calls End when all
// output is written and no process of the command is left.
type Live struct {
	out   *Broadcast
	means Means
	stdin io.Reader

	canceled, closed sync.Once
	release          error
	calls            sync.WaitGroup // of Means

	ended chan struct{}
	mu    sync.Mutex
	done  bool
	late  bool // the timeout came before the end
	fed   io.Closer
	fail  error // why it was killed, other than for its timeout
	stop  []*time.Timer
	exit  ExitStatus
	err   error
}

var _ Handle = (*Live)(nil)

// killWithin is how long Live waits for the end of a killed command. A process in an
// uninterruptible wait can stay forever.
const killWithin = 10 * time.Second

// NewLive returns the Handle of a command that has just started, and starts its timeout.
func NewLive(req Request, means Means) *Live {
	l := &Live{out: NewBroadcast(req.MaxOutputBytes), means: means, stdin: req.Stdin, ended: make(chan struct{})}
	if req.Timeout > 0 {
		l.after(req.Timeout, func() {
			l.mu.Lock()
			l.late = true
			l.mu.Unlock()
			l.kill()
		})
	}
	return l
}

// Stdout returns the writer for the command's standard output.
func (l *Live) Stdout() io.Writer { return l.out.Writer(Stdout) }

// Stderr returns the writer for the command's standard error.
func (l *Live) Stderr() io.Writer { return l.out.Writer(Stderr) }

// Feed copies the request's input to w and closes it, also when the command
// ends before its input does; so w may be closed twice, and during a Write. Feed
// does not wait for any of that.
func (l *Live) Feed(w io.WriteCloser) {
	if l.stdin == nil {
		_ = w.Close()
		return
	}
	l.mu.Lock()
	l.fed = w
	done := l.done
	l.mu.Unlock()
	if done {
		_ = w.Close()
		return
	}
	// A Read that hangs cannot be ended, so nothing waits for this goroutine.
	go func() {
		input := &inputReader{Reader: l.stdin}
		// What fails at w is a command that wants no more input.
		_, _ = io.Copy(w, input)
		if input.err == nil {
			_ = w.Close()
			return
		}
		// w stays open until End: its end would look like the input's.
		l.mu.Lock()
		l.fail = fault.New(fault.Execution, "read the command's input", "", input.err)
		l.mu.Unlock()
		l.kill()
	}()
}

// inputReader remembers how reading ended, which io.Copy does not tell from how
// writing did.
type inputReader struct {
	io.Reader
	err error
}

func (r *inputReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// End says how the command ended, or with err that the backend does not know.
// Only the first call counts. Live itself adds TimedOut and Truncated.
func (l *Live) End(exit ExitStatus, err error) {
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return
	}
	l.done = true
	fed := l.fed
	for _, timer := range l.stop {
		timer.Stop()
	}
	// What ended by itself at the moment of its timeout has a code, and keeps it.
	exit.TimedOut = l.late && exit.Code == NoCode
	exit.Truncated = exit.Truncated || l.out.Truncated()
	if l.fail != nil {
		err = l.fail
	}
	l.exit, l.err = exit, err
	l.mu.Unlock()
	if fed != nil {
		_ = fed.Close()
	}
	l.out.Close()
	close(l.ended)
}

func (l *Live) Output() *Reader { return l.out.Join() }

func (l *Live) Exit(ctx context.Context) (ExitStatus, error) {
	select {
	case <-l.ended: // first, so that a known end is told whatever ctx says
		return l.exit, l.err
	default:
	}
	select {
	case <-l.ended:
		return l.exit, l.err
	case <-ctx.Done():
		return ExitStatus{}, contextFault("wait for the command", ctx)
	}
}

func (l *Live) Cancel() {
	l.canceled.Do(func() {
		l.call(l.means.Terminate)
		l.after(CancelGrace, l.kill)
	})
}

func (l *Live) Close() error {
	l.closed.Do(func() {
		l.out.Close() // first: nothing must wait for readers any more
		l.kill()
		<-l.ended
		l.calls.Wait()
		l.release = l.means.Release()
	})
	return l.release
}

func (l *Live) kill() {
	l.call(l.means.Kill)
	l.after(killWithin, func() {
		l.End(ExitStatus{Code: NoCode}, fault.Newf(fault.Unavailable, "kill the command", "", "it does not end").
			Advise("See what it waits for; its backend may have to be restarted."))
	})
}

// call calls one of the means without waiting for it, unless the command has
// ended.
func (l *Live) call(means func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		l.calls.Go(means)
	}
}

// after does something later, unless the command has ended by then.
func (l *Live) after(d time.Duration, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		l.stop = append(l.stop, time.AfterFunc(d, do))
	}
}
