package engine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

// brief is a command that ends when its streams have.
type brief struct{ done chan struct{} }

func (b brief) PID() int                                    { return 1 }
func (b brief) Resize(engine.TerminalSize) error            { return nil }
func (b brief) Signal(context.Context, engine.Signal) error { return nil }
func (b brief) Done() <-chan struct{}                       { return b.done }
func (b brief) Wait() (engine.Exit, error)                  { <-b.done; return engine.Exit{}, nil }

// TestStartGivenUp: who gives up while a command starts is let go, also when the command has
// written by then, and waits for input.
func TestStartGivenUp(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	s := engine.NewSandbox(func(_ context.Context, cmd engine.Command, _ engine.Tenant) (engine.Process, error) {
		giveUp()
		b := brief{make(chan struct{})}
		go func() {
			defer close(b.done)
			for _, w := range []io.Writer{cmd.Stdout, cmd.Stderr} {
				if _, err := io.WriteString(w, "early"); err != nil {
					t.Error(err)
				}
			}
			if _, err := io.Copy(io.Discard, cmd.Stdin); err != nil {
				t.Error(err)
			}
		}()
		return b, nil
	})
	started := make(chan error, 1)
	go func() {
		_, err := s.Start(ctx, engine.Request{Command: engine.Program{Line: "true"}, Stdin: strings.NewReader("x"), WorkspaceRoot: "/home"})
		started <- err
	}()
	select {
	case err := <-started:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that it was given up", err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits still")
	}
}
