package enginetest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"

	"osaurus-sandbox/engine"
)

// brokenSandbox breaks one promise of a sandbox that keeps them all.
type brokenSandbox struct {
	engine.Sandbox
	request func(*engine.Request)
	handle  func(context.Context, engine.Request, engine.Handle) engine.Handle
	refusal func(error) error
}

func (m brokenSandbox) Start(ctx context.Context, req engine.Request) (engine.Handle, error) {
	if m.request != nil {
		m.request(&req)
	}
	h, err := m.Sandbox.Start(ctx, req)
	switch {
	case err != nil && m.refusal != nil:
		return nil, m.refusal(err)
	case err == nil && m.handle != nil:
		return m.handle(ctx, req, h), nil
	}
	return h, err
}

// brokenHandle is a handle with some methods replaced.
type brokenHandle struct {
	engine.Handle
	output func() *engine.Reader
	exit   func(context.Context) (engine.ExitStatus, error)
	cancel func()
	close  func() error
}

func (b brokenHandle) Output() *engine.Reader {
	if b.output != nil {
		return b.output()
	}
	return b.Handle.Output()
}

func (b brokenHandle) Exit(ctx context.Context) (engine.ExitStatus, error) {
	if b.exit != nil {
		return b.exit(ctx)
	}
	return b.Handle.Exit(ctx)
}

func (b brokenHandle) Cancel() {
	if b.cancel != nil {
		b.cancel()
		return
	}
	b.Handle.Cancel()
}

func (b brokenHandle) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.Handle.Close()
}

func requests(change func(*engine.Request)) func(engine.Sandbox) engine.Sandbox {
	return func(s engine.Sandbox) engine.Sandbox { return brokenSandbox{Sandbox: s, request: change} }
}

func handles(change func(context.Context, engine.Request, engine.Handle) engine.Handle) func(engine.Sandbox) engine.Sandbox {
	return func(s engine.Sandbox) engine.Sandbox { return brokenSandbox{Sandbox: s, handle: change} }
}

// exits changes exit statuses.
func exits(change func(*engine.ExitStatus)) func(engine.Sandbox) engine.Sandbox {
	return handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
		return brokenHandle{Handle: h, exit: func(ctx context.Context) (engine.ExitStatus, error) {
			exit, err := h.Exit(ctx)
			change(&exit)
			return exit, err
		}}
	})
}

// outputs changes what readers get: change is called for each chunk, and with nil at the end,
// and returns what is passed on.
func outputs(make func() func(chunk *engine.Chunk) []engine.Chunk) func(engine.Sandbox) engine.Sandbox {
	return handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
		change, out, in := make(), engine.NewBroadcast(0), h.Output()
		hand := func(chunks []engine.Chunk) {
			for _, c := range chunks {
				_, _ = out.Writer(c.Stream).Write(c.Data)
			}
		}
		go func() {
			defer out.Close()
			for {
				chunk, err := in.Next(context.Background())
				if err != nil {
					hand(change(nil))
					return
				}
				hand(change(&chunk))
			}
		}()
		return brokenHandle{Handle: h, output: out.Join}
	})
}

// each changes chunks one by one.
func each(change func(engine.Chunk) engine.Chunk) func(engine.Sandbox) engine.Sandbox {
	return outputs(func() func(*engine.Chunk) []engine.Chunk {
		return func(c *engine.Chunk) []engine.Chunk {
			if c == nil {
				return nil
			}
			return []engine.Chunk{change(*c)}
		}
	})
}

// replay gives every reader everything from the start.
type replay struct {
	engine.Handle
	mu      sync.Mutex
	past    []engine.Chunk
	readers []*engine.Broadcast
	ended   bool
}

func newReplay(h engine.Handle) *replay {
	r, in := &replay{Handle: h}, h.Output()
	go func() {
		for {
			chunk, err := in.Next(context.Background())
			r.mu.Lock()
			for _, b := range r.readers {
				if err != nil {
					b.Close()
				} else {
					_, _ = b.Writer(chunk.Stream).Write(chunk.Data)
				}
			}
			r.past = append(r.past, chunk)
			r.ended = err != nil
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return r
}

func (r *replay) Output() *engine.Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := engine.NewBroadcast(0)
	for _, c := range r.past {
		_, _ = b.Writer(c.Stream).Write(c.Data)
	}
	if r.ended {
		b.Close()
	}
	r.readers = append(r.readers, b)
	return b.Join()
}

// until is an input that hangs until the test ends.
type until struct{ end <-chan struct{} }

func (u until) Read([]byte) (int, error) {
	<-u.end
	return 0, io.EOF
}

// silenced is an input whose failure looks like its end.
type silenced struct{ io.Reader }

func (s silenced) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// careless runs commands without holding on to what they start.
func careless(_ context.Context, c engine.Command, _ engine.Tenant) (engine.Process, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, append(os.Environ(), c.Env...), c.Stdin, c.Stdout, c.Stderr
	p := &carelessProcess{cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait(); close(p.done) }()
	return p, nil
}

type carelessProcess struct {
	engine.Process
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *carelessProcess) Signal(context.Context, engine.Signal) error { return p.cmd.Process.Kill() }
func (p *carelessProcess) Done() <-chan struct{}                       { return p.done }
func (p *carelessProcess) Wait() (engine.Exit, error) {
	<-p.done
	return engine.Exit{Code: p.cmd.ProcessState.ExitCode()}, nil
}
