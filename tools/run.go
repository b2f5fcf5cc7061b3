package tools

import (
	"bytes"
	"context"

	"osaurus-sandbox/engine"
)

// MaxStdout and maxStderr bound each stream of a result in characters, to spare the model's
// context.
const MaxStdout, maxStderr = 50_000, 10_000

// Ran is the result of a command, shortened for a model.
type Ran struct {
	Stdout, Stderr string
	ExitCode       int // 128 + n after signal n
	TimedOut       bool
	IdledOut       bool   // wrote nothing for too long
	Limit          string // the limit that it reached: oom, pids or quota
	Truncated      bool   // the middle of the output is missing
	StdoutCut      bool   // the middle of Stdout is missing
}

// Run runs a command in a room and waits for it.
func Run(ctx context.Context, room engine.Executor, cmd engine.Command) (Ran, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.MaxOutput = &stdout, &stderr, bytesFor(MaxStdout)
	p, err := room.Exec(ctx, cmd)
	if err != nil {
		return Ran{}, err
	}
	exit, err := p.Wait()
	if err != nil {
		return Ran{}, err
	}
	r := Ran{ExitCode: exit.Status(), TimedOut: exit.TimedOut, IdledOut: exit.Idle, Limit: limitOf(exit)}
	var cut bool
	r.Stdout, r.StdoutCut = clip(stdout.String(), MaxStdout, exit.StdoutTruncated)
	r.Stderr, cut = clip(stderr.String(), maxStderr, exit.StderrTruncated)
	r.Truncated = r.StdoutCut || cut
	return r, nil
}

// limitOf returns the agent's limit that a command reached, or "".
func limitOf(e engine.Exit) string {
	switch {
	case e.OOM:
		return "oom"
	case e.PIDs:
		return "pids"
	case e.Quota:
		return "quota"
	}
	return ""
}
