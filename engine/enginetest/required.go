package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/engine"
)

// These are the scenarios of Kairo's ExecutionSandboxTCK, in its order.

func successfulExit(ctx context.Context, t *trial) error {
	got, err := t.finish(ctx, t.line(`printf out; printf err >&2`))
	if err != nil {
		return err
	}
	got.Exit.Note = "" // is the engine's own business
	if got.Exit != (engine.ExitStatus{}) || string(got.Stdout) != "out" || string(got.Stderr) != "err" {
		return fmt.Errorf("exit %+v, output %s, errors %s", got.Exit, quote(got.Stdout), quote(got.Stderr))
	}
	return nil
}

func nonZeroExit(ctx context.Context, t *trial) error {
	for _, code := range []int{1, 3, 126, 127, 128, 137, 255} {
		got, err := t.finish(ctx, t.line(fmt.Sprintf("exit %d", code)))
		if err != nil {
			return err
		}
		if got.Exit.Code != code || got.Exit.Signal != "" || got.Exit.TimedOut {
			return fmt.Errorf("exit %d is told as %+v", code, got.Exit)
		}
	}
	return nil
}

func timeoutKills(ctx context.Context, t *trial) error {
	for _, line := range []string{"echo begun; " + forever, "trap '' HUP INT TERM; echo begun; while :; do " + forever + "; done"} {
		err := t.longEnough(func(timeout time.Duration) error {
			req := t.line(line)
			req.Timeout = timeout
			return t.promptly("a timeout of "+timeout.String(), func() error {
				got, err := t.finish(ctx, req)
				if err == nil && (!got.Exit.TimedOut || got.Exit.Code != engine.NoCode || string(got.Stdout) != "begun\n") {
					err = fmt.Errorf("%s: exit %+v, output %s", line, got.Exit, quote(got.Stdout))
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	req := t.line("exit 4")
	req.Timeout = time.Minute
	got, err := t.finish(ctx, req)
	if err == nil && (got.Exit.TimedOut || got.Exit.Code != 4) {
		err = fmt.Errorf("a command that ends long before its timeout: exit %+v", got.Exit)
	}
	return err
}

func outputIsTruncated(ctx context.Context, t *trial) error {
	const limit = 1000
	for _, c := range []struct {
		line      string
		truncated bool
	}{
		{`head -c 1000000 /dev/zero; exit 5`, true},
		{`head -c 600 /dev/zero; head -c 600 /dev/zero >&2; exit 5`, true},
		{`head -c 1000 /dev/zero; exit 5`, false},
	} {
		req := t.line(c.line)
		req.MaxOutputBytes = limit
		got, err := t.finish(ctx, req)
		if err != nil {
			return err
		}
		if n := len(got.Stdout) + len(got.Stderr); n != limit || got.Exit.Truncated != c.truncated || got.Exit.Code != 5 {
			return fmt.Errorf("%s, limited to %d bytes: %d bytes, exit %+v", c.line, limit, n, got.Exit)
		}
	}
	return nil
}

func cancelIsIdempotent(ctx context.Context, t *trial) error {
	h, err := t.start(ctx, t.line(forever))
	if err != nil {
		return err
	}
	defer h.Close()
	var first engine.ExitStatus
	if err := t.promptly("Cancel", func() error {
		h.Cancel()
		h.Cancel()
		first, err = h.Exit(ctx)
		h.Cancel()
		return err
	}); err != nil {
		return err
	}
	if first.Code != engine.NoCode || first.Signal == "" || first.TimedOut {
		return fmt.Errorf("a command that was canceled has exit %+v", first)
	}
	h.Cancel()
	if again, err := h.Exit(ctx); err != nil || again != first {
		return fmt.Errorf("the exit %+v became %+v, %v after another Cancel", first, again, err)
	}
	return nil
}

func readOnlyRejectsWrites(ctx context.Context, t *trial) error {
	if err := t.expect(ctx, t.line(`echo old > file && cat file`), 0, "old\n"); err != nil {
		return err
	}
	for _, write := range []string{`echo new > file`, `echo new > other`, `rm file`, `mkdir folder`} {
		req := t.line(write)
		req.ReadOnly = true
		got, err := t.finish(ctx, req)
		if err != nil {
			return err
		}
		if got.Exit.Code == 0 {
			return fmt.Errorf("%q succeeds with ReadOnly", write)
		}
	}
	reading := t.line(`cat file`)
	reading.ReadOnly = true
	return errors.Join(
		t.expect(ctx, reading, 0, "old\n"),
		t.expect(ctx, t.line(`ls; cat file`), 0, "file\nold\n"),
	)
}

func concurrentStartsAreIsolated(ctx context.Context, t *trial) error {
	const many = 8
	errs := make([]error, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			name := fmt.Sprintf("command%d", i)
			if errs[i] = t.shell(ctx, t.dir, `mkdir "$DIR"`, t.dir+"/"+name); errs[i] != nil {
				return
			}
			// Each sleeps in the middle, so that they overlap.
			req := t.line(`cat > file; sleep 0.3; printf '%s ' "$ME"; cat file; ls; exit "$CODE"`)
			req.WorkspaceRoot += "/" + name
			req.Env = map[string]string{"ME": name, "CODE": fmt.Sprint(10 + i)}
			req.Stdin = strings.NewReader("input of " + name + "\n")
			errs[i] = t.expect(ctx, req, 10+i, name+" input of "+name+"\nfile\n")
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func closeReleases(ctx context.Context, t *trial) error {
	h, err := t.start(ctx, t.line("echo begun; "+forever))
	if err != nil {
		return err
	}
	output := h.Output()
	if err := await(ctx, output, "begun\n"); err != nil {
		return errors.Join(err, h.Close())
	}
	if err := t.promptly("Close", h.Close); err != nil {
		return fmt.Errorf("close a command that runs: %w", err)
	}
	return t.promptly("what follows Close", func() error {
		exit, err := h.Exit(ctx)
		if err != nil || exit.Code != engine.NoCode {
			return fmt.Errorf("a command that was closed has exit %+v, %v", exit, err)
		}
		if _, err := rest(ctx, output); err != nil {
			return fmt.Errorf("a reader of a command that was closed: %w", err)
		}
		if late, err := rest(ctx, h.Output()); err != nil || len(late) > 0 {
			return fmt.Errorf("a reader after Close gets %s, %v", quote(late), err)
		}
		h.Cancel()
		if err := h.Close(); err != nil {
			return fmt.Errorf("the second Close: %w", err)
		}
		return nil
	})
}
