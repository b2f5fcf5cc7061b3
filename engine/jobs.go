package engine

import (
	"time"

	"osaurus-sandbox/config"
)

// JobCommand is a command to run in the background.
type JobCommand struct {
	Args  []string // a program without a slash is looked for in PATH
	Env   []string // NAME=value, over the user's login environment
	Dir   string   // relative to the home
	Label string   // for people
	// As in Command.
	Plugin  config.PluginID
	Offline bool
}

// Job is a job as the guest says it is.
type Job struct {
	ID             config.JobID
	User           string
	Args           []string // clipped
	Label          string
	Plugin         config.PluginID // for which the host has started it; empty for the agent itself
	Running        bool
	PID            int // in the guest; for show only
	Started, Ended time.Time
	Code           int    // when it has ended and Signal is 0
	Signal         Signal // that ended it
	OOM, Pids      bool   // its room was at its limit of memory, of processes
	Killed         bool   // by KillJob
	// Written is how many bytes of output there were, Dropped how many of the
	// first the log no longer has.
	Written, Dropped uint64
	// LogFile is where the job's room shows the end of its output, to be read only:
	// the file that grows, and beside it, with ".1" after its name, the part before.
	LogFile string
}

// Status is the one number that a shell would show of a job that has ended.
func (j Job) Status() int { return Exit{Code: j.Code, Signal: j.Signal}.Status() }

// JobTail is a part of a job's output.
type JobTail struct {
	Data   []byte
	Offset uint64 // of Data; the next part begins at Offset + len(Data)
	Job    Job
}

// MaxJobWait is the longest that one WaitJob or TailJob waits.
const MaxJobWait = time.Minute
