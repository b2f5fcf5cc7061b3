package enginetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/engine"
)

// scenario checks one promise of the contract.
type scenario struct {
	name     string
	required bool
	promise  string
	try      func(context.Context, *trial) error
}

// scenarios returns all scenarios in the order in which they run. The required ones
// are those of Kairo's ExecutionSandboxTCK.
func scenarios() []scenario {
	return []scenario{
		{"SuccessfulExit", true, "a command that succeeds has code 0 and all of its output", successfulExit},
		{"NonZeroExit", true, "an exit code comes through as it is", nonZeroExit},
		{"TimeoutKills", true, "at its timeout a command is killed: TimedOut, and no code", timeoutKills},
		{"OutputIsTruncated", true, "output beyond MaxOutputBytes is dropped and said to be, and the command runs on", outputIsTruncated},
		{"CancelIsIdempotent", true, "Cancel ends a command by a signal, once, and changes nothing after the end", cancelIsIdempotent},
		{"ReadOnlyRejectsWrites", true, "with ReadOnly a write to the workspace is refused, without it is not", readOnlyRejectsWrites},
		{"ConcurrentStartsAreIsolated", true, "commands at the same time share no workspace, environment, input, output or end", concurrentStartsAreIsolated},
		{"CloseReleases", true, "Close ends the command and its readers, and may be called again", closeReleases},

		{"StreamsStayApart", false, "standard output and standard error keep apart, each in its order", streamsStayApart},
		{"BinaryThrough", false, "every byte goes in and comes out as it is", binaryThrough},
		{"TenThousandChunks", false, "ten thousand small writes to each stream all arrive, in order", tenThousandChunks},
		{"FirstReaderGetsAll", false, "the first reader gets everything, also if it comes after the end", firstReaderGetsAll},
		{"LateReaderJoins", false, "a later reader gets what is written from then on, and nothing again", lateReaderJoins},
		{"SlowReader", false, "a reader that does not read is left behind with an error; the command and others go on", slowReader},
		{"NobodyReads", false, "a command whose output nobody reads comes to its end", nobodyReads},

		{"EmptyStdin", false, "without an input, standard input is at its end", emptyStdin},
		{"UnreadStdin", false, "an input that is not read, ends late or hangs does not keep the command from its end", unreadStdin},
		{"BrokenStdin", false, "an input that fails ends the command with an error: half is not taken for the whole", brokenStdin},

		{"ArgumentsVerbatim", false, "arguments of Argv are seen by no shell", argumentsVerbatim},
		{"EnvIsADelta", false, "the environment is the engine's with the request's over it, whatever is in it", envIsADelta},
		{"CallersEnvStays", false, "nothing of the calling program's environment gets to a command", callersEnvStays},
		{"WorksInWorkspace", false, "the working directory is the workspace, which can be written to", worksInWorkspace},
		{"CommandNotFound", false, "a program or workspace that does not exist is not_found, one that cannot be run is rejected", commandNotFound},
		{"BadRequests", false, "a request that makes no sense is invalid_args", badRequests},
		{"StartContext", false, "ctx ends a start and not what was started", startContext},
		{"TenantIsAudited", false, "the engine records the tenant of a command", tenantIsAudited},

		{"ExitIsCached", false, "all waiters get the same exit status, also after one of them gives up", exitIsCached},
		{"SignalIsNamed", false, "a command that a signal ended has no code, and the signal's name", signalIsNamed},
		{"CancelLetsCleanUp", false, "Cancel lets a command clean up, and kills one that does not end", cancelLetsCleanUp},
		{"CancelRaces", false, "Cancel, Close, Exit and Output at once, at any moment, agree on one end", cancelRaces},
		{"CloseWithoutReading", false, "Close ends a command in the middle of output that nobody reads", closeWithoutReading},
		{"NothingRemains", false, "after exit, timeout, Cancel and Close nothing runs that the command started, however detached", nothingRemains},
		{"NothingLeaks", false, "commands that have ended leave no goroutines and descriptors in this program", nothingLeaks},
		{"HundredStarts", false, "a hundred commands started at once each get their own output and end", hundredStarts},

		{"ReadOnlyTricks", false, "with ReadOnly no trick changes anything in the workspace", readOnlyTricks},
		{"ReadOnlyScratch", false, "with ReadOnly a command still has a temporary folder", readOnlyScratch},
	}
}

const (
	// deadline is for one scenario. An emulated guest on a busy computer needs a
	// tenth of it.
	deadline = 2 * time.Minute
	// tidy is for removing a scenario's folder.
	tidy = 30 * time.Second
	// soon is for what happens at once.
	soon = 30 * time.Second
	// forever is a command that something else must end.
	forever = "sleep 300"
)

type outcome string

const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	lacking outcome = "lacking"
)

// run returns the outcome, with what was seen or why it is lacking.
func (s scenario) run(ctx context.Context, suite Suite) (outcome, string) {
	err := s.attempt(ctx, suite)
	why, lacks := suite.Lacks[s.name]
	switch {
	case err != nil && lacks:
		return lacking, why
	case err != nil:
		return failed, err.Error()
	case lacks:
		return failed, "the suite says that this is lacking, and it works: take it off the list"
	}
	return passed, ""
}

// attempt gives the scenario a folder of its own and a deadline. A scenario that hangs
// is left behind, so that the others run.
func (s scenario) attempt(ctx context.Context, suite Suite) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		t := &trial{suite: suite, dir: suite.Root + "/sandboxtest-" + strings.ToLower(rand.Text()), soon: cmp.Or(suite.soon, soon)}
		if err := t.shell(ctx, suite.Root, `mkdir "$DIR"`, t.dir); err != nil {
			done <- fmt.Errorf("make a folder to work in: %w", err)
			return
		}
		trying, end := context.WithCancel(ctx)
		err := s.try(trying, t)
		end()
		t.calm()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidy)
		defer cancel()
		if removed := t.shell(ctx, suite.Root, `rm -rf "$DIR"`, t.dir); removed != nil {
			err = errors.Join(err, fmt.Errorf("remove the folder: %w", removed))
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(deadline + tidy):
		return fmt.Errorf("it hangs: no end after %s", deadline+tidy)
	}
}

// trial is one run of a scenario.
type trial struct {
	suite Suite
	dir   string // the scenario's own folder
	soon  time.Duration
	late  sync.WaitGroup // what was given up waiting for
}

// line is a request for a shell line in the scenario's folder.
func (t *trial) line(text string) engine.Request {
	return engine.Request{Command: engine.ShellLine(text), WorkspaceRoot: t.dir}
}

func (t *trial) start(ctx context.Context, req engine.Request) (engine.Handle, error) {
	h, err := t.suite.Sandbox.Start(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("start %v: %w", req.Command, err)
	}
	return h, nil
}

// finish runs a command to its end and closes it.
func (t *trial) finish(ctx context.Context, req engine.Request) (engine.Result, error) {
	h, err := t.start(ctx, req)
	if err != nil {
		return engine.Result{}, err
	}
	result, err := engine.Collect(ctx, h)
	if err != nil {
		err = fmt.Errorf("end of %v: %w", req.Command, err)
	}
	if closed := h.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("close: %w", closed))
	}
	return result, err
}

// expect runs a command and compares its end and standard output.
func (t *trial) expect(ctx context.Context, req engine.Request, code int, stdout string) error {
	result, err := t.finish(ctx, req)
	if err != nil {
		return err
	}
	if result.Exit.Code != code || string(result.Stdout) != stdout {
		return fmt.Errorf("%v: exit %+v with output %s and errors %s; want code %d and output %s",
			req.Command, result.Exit, quote(result.Stdout), quote(result.Stderr), code, quote([]byte(stdout)))
	}
	return nil
}

// shell runs a line that must succeed, which finds dir in $DIR.
func (t *trial) shell(ctx context.Context, root, line, dir string) error {
	_, err := t.output(ctx, engine.Request{Command: engine.ShellLine(line), WorkspaceRoot: root, Env: map[string]string{"DIR": dir}})
	return err
}

// output is what a command writes that must succeed.
func (t *trial) output(ctx context.Context, req engine.Request) (string, error) {
	result, err := t.finish(ctx, req)
	if err == nil && result.Exit.Code != 0 {
		err = fmt.Errorf("%v: exit %+v: %s", req.Command, result.Exit, quote(result.Stderr))
	}
	return string(result.Stdout), err
}

// await reads from a reader until what came on standard output ends with text.
func await(ctx context.Context, r *engine.Reader, text string) error {
	var got strings.Builder
	for !strings.HasSuffix(got.String(), text) {
		chunk, err := r.Next(ctx)
		if err != nil {
			return fmt.Errorf("waited for %q, got %s: %w", text, quote([]byte(got.String())), err)
		}
		if chunk.Stream == engine.Stdout {
			got.Write(chunk.Data)
		}
	}
	return nil
}

// rest reads standard output to the end.
func rest(ctx context.Context, r *engine.Reader) ([]byte, error) {
	var got []byte
	for {
		chunk, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if chunk.Stream == engine.Stdout {
			got = append(got, chunk.Data...)
		}
	}
}

// promptly does what must not take long.
func (t *trial) promptly(what string, do func() error) error {
	done := make(chan error, 1)
	t.late.Go(func() { done <- do() })
	select {
	case err := <-done:
		return err
	case <-time.After(t.soon):
		return fmt.Errorf("%s takes longer than %s", what, t.soon)
	}
}

// longEnough calls try with a timeout that must expire while the command runs. If the
// computer was too slow for that, it tries again with a longer one.
func (t *trial) longEnough(try func(timeout time.Duration) error) (err error) {
	for timeout := time.Second; timeout < t.soon; timeout *= 4 {
		if err = try(timeout); err == nil {
			return nil
		}
	}
	return err
}

// calm gives what was too late a last chance to end, and to close its commands.
func (t *trial) calm() {
	ended := make(chan struct{})
	go func() { t.late.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(t.soon):
	}
}

// quote shows bytes in an error, and not too many of them.
func quote(data []byte) string {
	const shown = 300
	if len(data) > shown {
		return fmt.Sprintf("%q… (%d bytes)", data[:shown], len(data))
	}
	return fmt.Sprintf("%q", data)
}
