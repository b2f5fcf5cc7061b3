package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

func exitIsCached(ctx context.Context, t *trial) error {
	h, gate, err := t.gated(ctx, `read line; exit 7`)
	if err != nil {
		return err
	}
	defer h.Close()
	impatient, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if exit, err := h.Exit(impatient); fault.KindOf(err) != fault.Timeout {
		return fmt.Errorf("the exit of a command that runs, waited for for 10 ms: %+v, %v", exit, err)
	}
	var exits [10]engine.ExitStatus
	var errs [10]error
	var all sync.WaitGroup
	for i := range exits {
		all.Go(func() { exits[i], errs[i] = h.Exit(ctx) })
	}
	if err := gate.Close(); err != nil {
		return err
	}
	all.Wait()
	for i, exit := range exits {
		if errs[i] != nil || exit.Code != 7 || exit != exits[0] {
			return fmt.Errorf("of those who wait, one is told %+v, %v and another %+v", exit, errs[i], exits[0])
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if exit, err := h.Exit(ended); err != nil || exit != exits[0] {
		return fmt.Errorf("an exit that is known is %+v, %v for a ctx that has ended", exit, err)
	}
	return nil
}

func signalIsNamed(ctx context.Context, t *trial) error {
	for _, name := range []string{"KILL", "TERM", "SEGV"} {
		got, err := t.finish(ctx, t.line("kill -"+name+" $$"))
		if err != nil {
			return err
		}
		if got.Exit.Code != engine.NoCode || got.Exit.Signal != name || got.Exit.TimedOut {
			return fmt.Errorf("a command that %s ended has exit %+v", name, got.Exit)
		}
	}
	return nil
}

func cancelLetsCleanUp(ctx context.Context, t *trial) error {
	if _, err := t.cancels(ctx, `trap '' TERM`, engine.ExitStatus{Code: engine.NoCode, Signal: "KILL"}, ""); err != nil {
		return err
	}
	// On a busy host a command may need longer to clean up than it has, but not each time.
	const tries = 5
	for try := 1; ; try++ {
		got, err := t.cancels(ctx, `trap 'echo cleaned; exit 9' TERM`, engine.ExitStatus{Code: 9}, "cleaned\n")
		if err == nil || got.Signal != "KILL" || try == tries {
			return err
		}
	}
}

// cancels cancels a command that has set a trap, and checks its exit and its last output.
func (t *trial) cancels(ctx context.Context, trap string, want engine.ExitStatus, last string) (got engine.ExitStatus, err error) {
	h, err := t.start(ctx, t.line(trap+`; echo begun; while :; do sleep 0.1; done`))
	if err != nil {
		return got, err
	}
	err = t.promptly("Cancel", func() error {
		output := h.Output()
		if err := await(ctx, output, "begun\n"); err != nil {
			return err
		}
		h.Cancel()
		exit, err := h.Exit(ctx)
		exit.Note = ""
		text, _ := rest(ctx, output)
		if err != nil || exit != want || string(text) != last {
			got = exit
			return fmt.Errorf("%s: exit %+v, %v, output %s after Cancel; want %+v, %q", trap, exit, err, quote(text), want, last)
		}
		return nil
	})
	return got, errors.Join(err, h.Close())
}

func cancelRaces(ctx context.Context, t *trial) error {
	const rounds = 20
	for range rounds {
		h, err := t.start(ctx, t.line(`for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.02; done`))
		if err != nil {
			return err
		}
		var mu sync.Mutex
		var exits []engine.ExitStatus
		var errs []error
		var all sync.WaitGroup
		for _, do := range []func() error{
			func() error { h.Cancel(); return nil },
			func() error { h.Output().Close(); return nil },
			h.Close,
		} {
			all.Go(func() {
				time.Sleep(rand.N(250 * time.Millisecond))
				done := do()
				exit, err := h.Exit(ctx)
				mu.Lock()
				defer mu.Unlock()
				exits, errs = append(exits, exit), append(errs, done, err)
			})
		}
		if err := t.promptly("a race of Cancel, Close, Exit and Output", func() error { all.Wait(); return nil }); err != nil {
			return err
		}
		if err := errors.Join(append(errs, h.Close())...); err != nil {
			return err
		}
		for _, exit := range exits {
			if exit != exits[0] {
				return fmt.Errorf("one is told %+v, another %+v", exits[0], exit)
			}
		}
	}
	return nil
}

func closeWithoutReading(ctx context.Context, t *trial) error {
	h, err := t.start(ctx, t.line(`while :; do head -c 1000000 /dev/zero; done`))
	if err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // so that it is in the middle of its output
	return t.promptly("Close", func() error {
		if err := h.Close(); err != nil {
			return err
		}
		exit, err := h.Exit(ctx)
		if err == nil && exit.Code != engine.NoCode {
			err = fmt.Errorf("a command without end that was closed has exit %+v", exit)
		}
		return err
	})
}

func nothingRemains(ctx context.Context, t *trial) error {
	// The line leaves a detached process behind that keeps writing ticks, and continues
	// when it does. If the engine does not end the process, it ends with the scenario's folder.
	const detach = `rm -f ticks; trap '' HUP INT TERM
tick='trap "" HUP INT TERM; echo > ticks; while [ -e ticks ] && echo >> ticks; do sleep 0.05; done'
if command -v setsid > /dev/null; then (setsid sh -c "$tick" > /dev/null 2>&1 < /dev/null &)
else (sh -c "$tick" > /dev/null 2>&1 < /dev/null &); fi
while [ ! -s ticks ]; do sleep 0.05; done
echo begun
`
	running := func(timeout time.Duration, end func(engine.Handle) error) error {
		req := t.line(detach + forever)
		req.Timeout = timeout
		h, err := t.start(ctx, req)
		if err != nil {
			return err
		}
		defer h.Close()
		if err := await(ctx, h.Output(), "begun\n"); err != nil {
			return err
		}
		return end(h)
	}
	exit := func(h engine.Handle) error {
		_, err := h.Exit(ctx)
		return err
	}
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"its exit", func() error { return t.expect(ctx, t.line(detach), 0, "begun\n") }},
		{"its timeout", func() error {
			return t.longEnough(func(timeout time.Duration) error { return running(timeout, exit) })
		}},
		{"Cancel", func() error { return running(0, func(h engine.Handle) error { h.Cancel(); return exit(h) }) }},
		{"Close", func() error { return running(0, engine.Handle.Close) }},
	} {
		if err := c.run(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		ticks := func() (int, error) {
			text, err := t.output(ctx, t.line(`wc -l < ticks`))
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(strings.TrimSpace(text))
		}
		before, err := ticks()
		if err != nil {
			return err
		}
		time.Sleep(time.Second)
		after, err := ticks()
		if err != nil {
			return err
		}
		if after != before {
			return fmt.Errorf("after %s a process of the command still runs", c.name)
		}
		if _, err := t.output(ctx, t.line(`rm ticks`)); err != nil {
			return err
		}
	}
	return nil
}

func nothingLeaks(ctx context.Context, t *trial) error {
	// The first commands may open connections and fill caches that stay.
	const warm, measured, spare = 3, 12, 6
	round := func() error {
		if _, err := t.finish(ctx, t.line(`echo text`)); err != nil {
			return err
		}
		for _, line := range []string{`head -c 100000 /dev/zero`, forever} {
			h, err := t.start(ctx, t.line(line))
			if err != nil {
				return err
			}
			h.Output() // and nobody reads it, or closes it
			h.Cancel()
			if err := h.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	for range warm {
		if err := round(); err != nil {
			return err
		}
	}
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors()
	for range measured {
		if err := round(); err != nil {
			return err
		}
	}
	var now, open int
	err := t.eventually("more is open than before", func() (bool, error) {
		now, open = runtime.NumGoroutine(), openDescriptors()
		return now <= goroutines+spare && open <= descriptors+spare, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %d goroutines became %d, %d descriptors %d, after %d commands", err, goroutines, now, descriptors, open, 3*measured)
	}
	return nil
}

// openDescriptors counts the open files of this program, on Linux and macOS.
func openDescriptors() int {
	entries, _ := os.ReadDir("/dev/fd")
	return len(entries)
}

func hundredStarts(ctx context.Context, t *trial) error {
	const many = 100
	errs := make([]error, many)
	gate := make(chan struct{})
	var begun, all sync.WaitGroup
	for i := range many {
		begun.Add(1)
		all.Go(func() {
			req := t.line(`cat; echo "$ME"; exit "$ME"`)
			req.Env = map[string]string{"ME": strconv.Itoa(i)}
			req.Stdin = closing{gate} // so that all of them run at once
			h, err := t.start(ctx, req)
			begun.Done()
			if err != nil {
				errs[i] = err
				return
			}
			defer h.Close()
			got, err := engine.Collect(ctx, h)
			if err == nil && (got.Exit.Code != i || string(got.Stdout) != strconv.Itoa(i)+"\n") {
				err = fmt.Errorf("number %d: exit %+v, output %s", i, got.Exit, quote(got.Stdout))
			}
			errs[i] = err
		})
	}
	begun.Wait()
	close(gate)
	all.Wait()
	return errors.Join(errs...)
}

// closing is an input that ends when its gate is opened.
type closing struct{ gate <-chan struct{} }

func (c closing) Read([]byte) (int, error) {
	<-c.gate
	return 0, io.EOF
}
