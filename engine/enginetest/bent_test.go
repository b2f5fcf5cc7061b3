package enginetest

import (
	"context"
	"io"
	"os/exec"
	"sync"

	"osaurus-sandbox/engine"
)

// meddler breaks one promise of a backend that keeps them all.
type meddler struct {
	engine.Sandbox
	request func(*engine.Request)
	handle  func(context.Context, engine.Request, engine.Handle) engine.Handle
	refusal func(error) error
}

func (m meddler) Start(ctx context.Context, req engine.Request) (engine.Handle, error) {
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

// bent is a handle of which some methods do something else.
type bent struct {
	engine.Handle
	output func() *engine.Reader
	exit   func(context.Context) (engine.ExitStatus, error)
	cancel func()
	close  func() error
}

func (b bent) Output() *engine.Reader {
	if b.output != nil {
		return b.output()
	}
	return b.Handle.Output()
}

func (b bent) Exit(ctx context.Context) (engine.ExitStatus, error) {
	if b.exit != nil {
		return b.exit(ctx)
	}
	return b.Handle.Exit(ctx)
}

func (b bent) Cancel() {
	if b.cancel != nil {
		b.cancel()
		return
	}
	b.Handle.Cancel()
}

func (b bent) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.Handle.Close()
}

func requests(change func(*engine.Request)) func(engine.Sandbox) engine.Sandbox {
	return func(s engine.Sandbox) engine.Sandbox { return meddler{Sandbox: s, request: change} }
}

func handles(bend func(context.Context, engine.Request, engine.Handle) engine.Handle) func(engine.Sandbox) engine.Sandbox {
	return func(s engine.Sandbox) engine.Sandbox { return meddler{Sandbox: s, handle: bend} }
}

// exits bends what is told of an end.
func exits(change func(*engine.ExitStatus)) func(engine.Sandbox) engine.Sandbox {
	return handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
		return bent{Handle: h, exit: func(ctx context.Context) (engine.ExitStatus, error) {
			exit, err := h.Exit(ctx)
			change(&exit)
			return exit, err
		}}
	})
}

// outputs bends what readers get: change is called for each chunk and at the end
// with none, and says what is handed on.
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
		return bent{Handle: h, output: out.Join}
	})
}

// each bends chunks one by one.
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

// replay hands everything to every reader, from the start.
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

// until is an input that says nothing until the test ends.
type until struct{ end <-chan struct{} }

func (u until) Read([]byte) (int, error) {
	<-u.end
	return 0, io.EOF
}

// soothed is an input whose failure looks like its end.
type soothed struct{ io.Reader }

func (s soothed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// careless runs commands without holding on to what they start.
type careless struct{}

func (careless) Start(_ context.Context, req engine.Request) (engine.Handle, error) {
	cmd := exec.Command("/bin/sh", "-c", req.Command.Line)
	cmd.Dir = req.WorkspaceRoot
	for name, value := range req.Env {
		cmd.Env = append(cmd.Environ(), name+"="+value)
	}
	c := &process{cmd}
	live := engine.NewLive(req, c)
	cmd.Stdout, cmd.Stderr = live.Stdout(), live.Stderr()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		live.End(engine.ExitStatus{Code: cmd.ProcessState.ExitCode()}, nil)
	}()
	return live, nil
}

type process struct{ cmd *exec.Cmd }

func (p *process) Terminate()     { p.Kill() }
func (p *process) Kill()          { _ = p.cmd.Process.Kill() }
func (p *process) Release() error { return nil }
