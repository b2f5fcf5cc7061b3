// Package engine declares what runs the programs of agents: an Engine gives each agent a Room with commands, files, shells and jobs, and a Sandbox runs single commands.
//
// Sandbox is the execution SPI. NewSandbox makes one of anything that implements
// Executor. Package enginetest checks that it keeps what the comments here promise,
// and docs/spi.md is the guide for authors.
package engine

import (
	"context"
	"time"
)

// Sandbox starts commands. It may be used by many goroutines at once, and one
// command's request, output and end never show in another's.
type Sandbox interface {
	// Start returns once the command runs. ctx is for the starting alone: its
	// end afterwards changes nothing, and the command ends by itself, by its
	// timeout, by Cancel or by Close. Whoever got a Handle must close it.
	//
	// Errors are faults: InvalidArgs for a request that Request.Check refuses,
	// NotFound for a program or a workspace that does not exist, Rejected for
	// what may not be run, Timeout when ctx ended first, Unavailable when the
	// backend cannot run anything at present. With an error nothing runs.
	Start(ctx context.Context, req Request) (Handle, error)
}

// Handle is one command that was started. All methods may be called by many
// goroutines, in any order, also after the end.
type Handle interface {
	// Output joins the stream of the command's output. The first reader gets
	// everything from the start, whenever it comes; each later one gets what is
	// written after it joined, and nothing again. See Broadcast for what holds
	// for readers that do not keep up.
	Output() *Reader

	// Exit waits for the command's end and says how it ended: always the same,
	// however often and by however many it is asked. When it answers, all the
	// output is with the readers and nothing that the command started runs any
	// more: what still runs when its first process has ended has Linger to end
	// too, and is then killed. It does not need anybody to read the output.
	//
	// The error is a fault: of ctx if that ends first, else of a backend that
	// lost sight of the command (Unavailable) or of an input that could not be
	// read (Execution).
	Exit(ctx context.Context) (ExitStatus, error)

	// Cancel asks the command to end and returns at once: SIGTERM, and SIGKILL
	// for all that remains after CancelGrace. A command that has ended stays as
	// it ended, and a second Cancel does nothing.
	Cancel()

	// Close kills what still runs, waits for its end, ends every reader after
	// what it has been given so far, and frees all that the backend holds for
	// the command. Every call returns what the first one did.
	Close() error
}

// Linger is how long what a command leaves behind may still write to its
// output (a tee at its end, for example).
const Linger = 500 * time.Millisecond

// CancelGrace is how long a command that was canceled has to clean up. People
// take what lasts longer for a Cancel that does not work.
const CancelGrace = 2 * time.Second

// Stream names one of a command's two outputs.
type Stream uint8

const (
	Stdout Stream = 1
	Stderr Stream = 2
)

func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "unknown stream"
}

// Chunk is a piece of a command's output, as it arrived. Several readers share
// Data: it must not be changed.
type Chunk struct {
	Stream Stream
	Data   []byte
}

// NoCode is the Code of a command that ended without one.
const NoCode = -1

// ExitStatus describes how a command ended.
type ExitStatus struct {
	Code      int    `json:"code"`                // its exit code; NoCode if a signal or its timeout ended it
	Signal    string `json:"signal,omitempty"`    // the signal that ended it, as kill -l names it ("KILL"); whatever the backend has, if it has no signals
	TimedOut  bool   `json:"timed_out,omitempty"` // it was killed at Request.Timeout
	Truncated bool   `json:"truncated,omitempty"` // there was more output than Request.MaxOutputBytes
	Note      string `json:"note,omitempty"`      // what the backend has to say to a person about this run
}
