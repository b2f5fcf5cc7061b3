package main

import (
	"bytes"
	"context"
	"errors"
	"time"

	"osaurus-sandbox/engine"
)

// maxJSONOutput bounds each stream of a command whose end is told as JSON: it
// is held in memory until then.
const maxJSONOutput = 1 << 20

// execJSON runs a command and prints how it ended with what it wrote. What is
// not UTF-8 of that is replaced.
func execJSON(ctx context.Context, c console, command engine.Command, run starter) error {
	var out, errs bytes.Buffer
	command.MaxOutput = maxJSONOutput
	began := time.Now()
	var w witness
	_, err := runCommand(ctx, console{c.in, &out, &errs}, command, w.watch(run))
	if _, isExit := errors.AsType[exit](err); !w.ended || err != nil && !isExit {
		return err // it did not run, or nobody knows how it ended
	}
	e := w.exit
	return errors.Join(err, printJSON(c.out, struct {
		Stdout    string  `json:"stdout"`
		Stderr    string  `json:"stderr"`
		ExitCode  int     `json:"exit_code"` // as a shell shows it
		Signal    int     `json:"signal"`
		TimedOut  bool    `json:"timed_out"`
		OOM       bool    `json:"oom"`
		PIDs      bool    `json:"pids"`
		Quota     bool    `json:"quota"`
		Truncated bool    `json:"truncated"`
		Duration  float64 `json:"duration"` // seconds
	}{
		out.String(), errs.String(), e.Status(), int(e.Signal), e.TimedOut, e.OOM, e.PIDs, e.Quota,
		e.StdoutTruncated+e.StderrTruncated > 0, time.Since(began).Seconds(),
	}))
}
