package tools

import (
	"bytes"
	"context"

	"osaurus-sandbox/engine"
)

// MaxStdout and maxStderr are how many characters of each stream a model is
// shown: what it can make use of, and most of its context left.
const MaxStdout, maxStderr = 50_000, 10_000

// Ran is a command that ran to its end, as much of it as a model is shown.
type Ran struct {
	Stdout, Stderr string
	ExitCode       int // 128 + n if signal n ended it
	TimedOut       bool
	IdledOut       bool   // it wrote nothing for too long
	Limit          string // the agent's limit that it met: oom, pids or quota
	Truncated      bool   // the middle of the output was left out
	StdoutCut      bool   // that of Stdout was
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

// limitOf is the limit of its agent that a command met, if it met one.
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
