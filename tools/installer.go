package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/tools/packages"
)

const (
	// maxInstallOutput bounds the output in a failure, in characters.
	maxInstallOutput = 20_000
	// maxManagerOutput bounds the output of a command in bytes. It has room for a list of some ten
	// thousand packages.
	maxManagerOutput = 1 << 20
	// freshTime is how long a package index is used without fetching it again.
	freshTime = time.Hour
	// retryPause is the pause before the second attempt.
	retryPause = 2 * time.Second
	// installBudget covers two attempts, another install of the agent before this one,
	// and the start of a guest.
	installBudget = 64*time.Minute + bootTime
	// idleLimit is how long a manager may write nothing. Unpacking large packages is silent, and
	// slow under emulation.
	idleLimit = 4 * time.Minute
)

// Installer installs packages in agents' rooms. It runs one install per agent at a time, because
// package managers lock their database.
type Installer struct {
	// Snapshot, if not nil, is called before system packages are installed, so that the room can be
	// restored. An install goes on without it. It is set before the first install.
	Snapshot func(ctx context.Context, a Agent) error

	rooms func(Agent) engine.Executor
	queue queue.Queues[config.AgentID]

	mu sync.Mutex
	// fresh is when each agent's index was last fetched.
	fresh map[config.AgentID]time.Time
}

// NewInstaller returns an installer.
func NewInstaller(rooms func(Agent) engine.Executor) *Installer {
	return &Installer{rooms: rooms, fresh: map[config.AgentID]time.Time{}}
}

// Installed is the result of an install.
type Installed struct {
	Installed []packages.Spec  `json:"installed"`
	Manager   packages.Manager `json:"manager"`
	ExitCode  int              `json:"exit_code"`
	Output    string           `json:"output" jsonschema:"what was installed, with versions"`
	LeftOut   []string         `json:"recommended,omitempty" jsonschema:"recommended packages that were left out; install those that you need"`
	Retried   bool             `json:"retried,omitempty" jsonschema:"the second attempt succeeded"`
}

// System calls Install with the package manager of the guest's distribution.
func (i *Installer) System(ctx context.Context, c *Call, names []string) (Installed, error) {
	m := packages.APK
	if _, err := i.run(ctx, c, false, nil, "apk", "--version"); absent(err, "apk") { // ask the room: a pack can have any name
		m = packages.APT
	} else if err != nil {
		return Installed{}, err
	}
	return i.Install(ctx, c, m, names)
}

// Install installs packages for an agent and reports progress to the call. It fails with a
// *Failure; its member failure_class says why. What a failed install added is removed, and
// cleanup_failed says if that failed too. If the context ends an install, the next one repairs
// what it left.
func (i *Installer) Install(ctx context.Context, c *Call, m packages.Manager, names []string) (Installed, error) {
	specs, err := specsOf(m, names)
	if err != nil {
		return Installed{}, err
	}
	release, err := i.queue.Take(ctx, c.ID, func(ahead int) { c.Say("waiting for %d other install(s) of this agent", ahead) })
	if err != nil {
		return Installed{}, fault.Wrap("wait for the agent's other installs", string(c.Name), err)
	}
	defer release()
	if i.Snapshot != nil && (m == packages.APK || m == packages.APT) {
		if err := i.Snapshot(ctx, c.Agent); err != nil {
			c.Warn("There is no snapshot from before this install: %v", err)
		}
	}
	return (&install{Installer: i, call: c, manager: m, specs: specs}).do(ctx)
}

// specsOf parses packages.
func specsOf(m packages.Manager, names []string) ([]packages.Spec, error) {
	if n := len(names); n == 0 || n > packages.MaxSpecs {
		return nil, wrongArgument("packages", fmt.Sprintf("1 to %d packages", packages.MaxSpecs), "there are %d packages", n)
	}
	specs := make([]packages.Spec, len(names))
	for n, name := range names {
		spec, err := packages.Parse(m, name)
		if err != nil {
			return nil, &Failure{Kind: fault.InvalidArgs, Field: "packages", Expected: fault.AdviceOf(err), Message: err.Error(), Cause: err}
		}
		specs[n] = spec
	}
	return specs, nil
}

// ran is the result of a command.
type ran struct {
	exit   engine.Exit
	output string
	lost   uint64 // omitted bytes
}

func (r ran) ok() bool { return r.exit.Status() == 0 && !r.exit.Idle }

// run runs a command of a package manager to its end, as the room's root or as the agent. If say is not
// nil, it receives some of the output lines.
func (i *Installer) run(ctx context.Context, c *Call, root bool, say func(format string, args ...any), args ...string) (ran, error) {
	out := &progressOutput{say: say}
	cmd := engine.Command{
		Args: args, Dir: c.Home, Env: environment(c.Agent), Stdout: out, Stderr: out, IdleTimeout: idleLimit, MaxOutput: maxManagerOutput,
	}
	if root { // not in a folder where the agent can place files that look like packages
		cmd.RoomRoot, cmd.Dir, cmd.Env = true, "/", []string{"DEBIAN_FRONTEND=noninteractive"}
	}
	p, err := i.rooms(c.Agent).Exec(ctx, cmd)
	if err != nil {
		return ran{}, err
	}
	exit, err := p.Wait()
	return ran{exit, out.all.String(), exit.StdoutTruncated + exit.StderrTruncated}, err
}

// absent reports whether an error says that a program does not exist.
func absent(err error, program string) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && e.Kind == fault.NotFound && e.Subject == program
}

// progressOutput collects a manager's output and reports some of its lines as progress.
type progressOutput struct {
	all  bytes.Buffer
	say  func(format string, args ...any)
	last time.Time
}

const (
	// reportEvery is the minimum time between reported lines.
	reportEvery = time.Second
	// maxReported bounds a reported line in bytes.
	maxReported = 200
)

func (t *progressOutput) Write(p []byte) (int, error) {
	n, err := t.all.Write(p)
	if t.say == nil || time.Since(t.last) < reportEvery {
		return n, err
	}
	line := strings.TrimSpace(printable.LastLines(strings.TrimSpace(string(p)), 1))
	if line != "" {
		t.last = time.Now()
		t.say("%s", printable.First(line, maxReported))
	}
	return n, err
}
