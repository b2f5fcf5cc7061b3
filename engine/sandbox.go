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

// Sandbox starts commands. It is safe for concurrent use, and commands do not affect
// each other.
type Sandbox interface {
	// Start returns once the command runs. ctx bounds only the start. The caller
	// must close the Handle.
	//
	// Errors are faults: InvalidArgs for a request that Request.Check refuses,
	// NotFound for a program or a workspace that does not exist, Rejected for a
	// program that must not be run, Timeout when ctx ended first, Unavailable when the
	// engine cannot run anything at present. With an error nothing runs.
	Start(ctx context.Context, req Request) (Handle, error)
}

// Handle is a started command. It is safe for concurrent use, and its methods may
// be called in any order, also after the end.
type Handle interface {
	// Output returns a reader of the command's output. The first reader gets all
	// output from the start; each later one gets what is written after it joined.
	// See Broadcast for readers that do not keep up.
	Output() *Reader

	// Exit waits for the command's end and returns how it ended, the same at every
	// call. All output is then with the readers, and nothing that the command
	// started still runs: when its first process has ended, the others have Linger
	// to end too and are then killed. Exit does not depend on the output being read.
	//
	// The error is a fault: of ctx if that ends first, Unavailable if the engine
	// lost the command, or Execution if its input could not be read.
	Exit(ctx context.Context) (ExitStatus, error)

	// Cancel sends SIGTERM, and SIGKILL after CancelGrace, and returns at once. It
	// does nothing after the end or another Cancel.
	Cancel()

	// Close kills the command, waits for its end, ends every reader after the output
	// that it has queued, and releases the command's resources. It may be called
	// again.
	Close() error
}

// Linger is how long processes that outlive the command's first one may still write
// output, for example a tee at the end of a pipe.
const Linger = 500 * time.Millisecond

// CancelGrace is how long a canceled command has to clean up. After a longer time
// people would believe that Cancel does not work.
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

// Chunk is a piece of a command's output. Readers share Data and must not change it.
type Chunk struct {
	Stream Stream
	Data   []byte
}

// NoCode is the Code of a command that a signal ended.
const NoCode = -1

// ExitStatus describes how a command ended.
type ExitStatus struct {
	Code      int    `json:"code"`                // its exit code; NoCode if a signal or its timeout ended it
	Signal    string `json:"signal,omitempty"`    // the signal that ended it, as kill -l names it ("KILL")
	TimedOut  bool   `json:"timed_out,omitempty"` // it was killed at Request.Timeout
	Truncated bool   `json:"truncated,omitempty"` // output beyond Request.MaxOutputBytes was dropped
	Note      string `json:"note,omitempty"`      // a message from the engine for people
}
