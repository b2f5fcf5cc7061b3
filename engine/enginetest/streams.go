package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

func streamsStayApart(ctx context.Context, t *trial) error {
	got, err := t.finish(ctx, t.line(`for i in 1 2 3; do echo "o$i"; echo "e$i" >&2; done`))
	if err != nil {
		return err
	}
	if string(got.Stdout) != "o1\no2\no3\n" || string(got.Stderr) != "e1\ne2\ne3\n" {
		return fmt.Errorf("output %s, errors %s", quote(got.Stdout), quote(got.Stderr))
	}
	return nil
}

func binaryThrough(ctx context.Context, t *trial) error {
	data := make([]byte, 256<<10)
	_, _ = rand.Read(data) // never fails
	// It has every byte, and is not UTF-8.
	for i := range 256 {
		data[i] = byte(i)
	}
	req := t.line(`tee copy >&2; cat copy`)
	req.Stdin = bytes.NewReader(data)
	got, err := t.finish(ctx, req)
	if err != nil {
		return err
	}
	if !bytes.Equal(got.Stdout, data) || !bytes.Equal(got.Stderr, data) {
		return fmt.Errorf("%d random bytes come back as %d and %d others", len(data), len(got.Stdout), len(got.Stderr))
	}
	return nil
}

func tenThousandChunks(ctx context.Context, t *trial) error {
	const chunks = 10_000
	var out, errs strings.Builder
	for i := range chunks {
		fmt.Fprintf(&out, "o%d\n", i)
		fmt.Fprintf(&errs, "e%d\n", i)
	}
	got, err := t.finish(ctx, t.line(fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "o$i"; echo "e$i" >&2; i=$((i+1)); done`, chunks)))
	if err != nil {
		return err
	}
	for _, stream := range []struct{ name, got, want string }{
		{"output", string(got.Stdout), out.String()},
		{"errors", string(got.Stderr), errs.String()},
	} {
		if stream.got != stream.want {
			return fmt.Errorf("%s: %d bytes, not the %d that were written, or in another order", stream.name, len(stream.got), len(stream.want))
		}
	}
	return nil
}

func firstReaderGetsAll(ctx context.Context, t *trial) error {
	h, err := t.start(ctx, t.line(`echo early; echo late`))
	if err != nil {
		return err
	}
	defer h.Close()
	if _, err := h.Exit(ctx); err != nil {
		return err
	}
	got, err := rest(ctx, h.Output())
	if err == nil && string(got) != "early\nlate\n" {
		err = fmt.Errorf("the first reader, after the end, gets %s", quote(got))
	}
	return err
}

// gated starts a command that waits for a line of input.
func (t *trial) gated(ctx context.Context, line string) (engine.Handle, io.WriteCloser, error) {
	req := t.line(line)
	input, gate := io.Pipe()
	req.Stdin = input
	h, err := t.start(ctx, req)
	if err != nil {
		_ = gate.Close()
	}
	return h, gate, err
}

func lateReaderJoins(ctx context.Context, t *trial) error {
	h, gate, err := t.gated(ctx, `echo one; read line; echo two`)
	if err != nil {
		return err
	}
	defer h.Close()
	defer gate.Close()
	first := h.Output()
	if err := await(ctx, first, "one\n"); err != nil {
		return err
	}
	late := h.Output()
	if _, err := io.WriteString(gate, "go on\n"); err != nil {
		return err
	}
	for name, r := range map[string]*engine.Reader{"the first": first, "the late": late} {
		if got, err := rest(ctx, r); err != nil || string(got) != "two\n" {
			return fmt.Errorf("%s reader gets %s, %v after the second joined; want \"two\\n\"", name, quote(got), err)
		}
	}
	if got, err := rest(ctx, h.Output()); err != nil || len(got) > 0 {
		return fmt.Errorf("a reader that joins after the end gets %s, %v", quote(got), err)
	}
	return nil
}

func slowReader(ctx context.Context, t *trial) error {
	const much = 8 * engine.QueueBytes
	h, gate, err := t.gated(ctx, fmt.Sprintf(`read line; head -c %d /dev/zero; exit 3`, much))
	if err != nil {
		return err
	}
	defer h.Close()
	defer gate.Close()
	slow, quick := h.Output(), h.Output()
	if _, err := io.WriteString(gate, "go on\n"); err != nil {
		return err
	}
	if err := t.promptly("a command with a reader that does not read", func() error {
		if got, err := rest(ctx, quick); err != nil || len(got) != much {
			return fmt.Errorf("beside a reader that does not read, another gets %d bytes of %d, %v", len(got), much, err)
		}
		if exit, err := h.Exit(ctx); err != nil || exit.Code != 3 {
			return fmt.Errorf("exit %+v, %v", exit, err)
		}
		return nil
	}); err != nil {
		return err
	}
	got, err := rest(ctx, slow)
	if fault.KindOf(err) != fault.Timeout || len(got) > 2*engine.QueueBytes {
		return fmt.Errorf("the reader that did not read gets %d bytes and then %v; want no more than it may be behind, and a timeout", len(got), err)
	}
	return nil
}

func nobodyReads(ctx context.Context, t *trial) error {
	h, err := t.start(ctx, t.line(fmt.Sprintf(`head -c %d /dev/zero; exit 3`, 8*engine.QueueBytes)))
	if err != nil {
		return err
	}
	defer h.Close()
	return t.promptly("a command whose output nobody reads", func() error {
		exit, err := h.Exit(ctx)
		if err == nil && exit.Code != 3 {
			err = fmt.Errorf("exit %+v", exit)
		}
		return err
	})
}

func emptyStdin(ctx context.Context, t *trial) error {
	return t.promptly("reading an input that is not there", func() error {
		return t.expect(ctx, t.line(`cat; echo end`), 0, "end\n")
	})
}

func unreadStdin(ctx context.Context, t *trial) error {
	hanging, end := io.Pipe()
	defer end.Close()
	for name, input := range map[string]io.Reader{
		"an input without end":   zeros{},
		"an input that hangs":    hanging,
		"an input to be ignored": strings.NewReader(strings.Repeat("x", 1<<20)),
	} {
		req := t.line(`echo end; exit 3`)
		req.Stdin = input
		if err := t.promptly(name, func() error { return t.expect(ctx, req, 3, "end\n") }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// zeros is an endless input.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func brokenStdin(ctx context.Context, t *trial) error {
	broken := errors.New("the input broke")
	req := t.line(`cat > got; ` + forever)
	req.Stdin = io.MultiReader(strings.NewReader("half"), &failing{broken})
	h, err := t.start(ctx, req)
	if err != nil {
		return err
	}
	defer h.Close()
	return t.promptly("an input that fails", func() error {
		exit, err := h.Exit(ctx)
		if fault.KindOf(err) != fault.Execution || !strings.Contains(fmt.Sprint(err), broken.Error()) {
			return fmt.Errorf("exit %+v, %v; want execution_error with %q", exit, err, broken)
		}
		return nil
	})
}

// failing is an input that fails after a moment, when the command runs.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return 0, f.err
}
