package engine

import (
	"net/netip"
	"time"

	"osaurus-sandbox/config"
)

// JobCommand is a command to run in the background.
type JobCommand struct {
	Args  []string // a name without a slash is looked up in PATH
	Env   []string // NAME=value, over the user's login environment
	Dir   string   // relative to the home
	Label string   // for people
	// As in Command.
	Plugin  config.PluginID
	Network PluginNetwork
	Address netip.Addr
}

// Job describes a job. It comes from the guest and must not be trusted.
type Job struct {
	ID             config.JobID
	User           string
	Args           []string // clipped
	Label          string
	Plugin         config.PluginID // that it belongs to; empty for the agent itself
	Running        bool
	PID            int // in the guest; for show only
	Started, Ended time.Time
	Code           int    // when it has ended and Signal is 0
	Signal         Signal // that ended it
	OOM, Pids      bool   // its room reached its limit of memory, of processes
	Killed         bool   // by KillJob
	// Written is the number of bytes of output, Dropped how many of the first the log
	// no longer has.
	Written, Dropped uint64
	// LogFile is where the room shows the output, read-only, without the dropped bytes.
	LogFile string
}

// Status returns the number that a shell would show of a job that has ended.
func (j Job) Status() int { return Exit{Code: j.Code, Signal: j.Signal}.Status() }

// JobTail is a part of a job's output.
type JobTail struct {
	Data   []byte
	Offset uint64 // of Data; the next part starts at Offset + len(Data)
	Job    Job
}

// MaxJobWait is the longest that one WaitJob or TailJob waits.
const MaxJobWait = time.Minute
