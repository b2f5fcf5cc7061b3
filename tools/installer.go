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
	// maxInstallOutput is how many characters of what managers write a model is
	// shown.
	maxInstallOutput = 20_000
	// maxLedger bounds the list of what is installed: some ten thousand packages.
	maxLedger = 1 << 20
	// freshTime is how long an index of packages is believed. One that has become
	// wrong meanwhile is noticed, and fetched again.
	freshTime = time.Hour
	// breath is the pause before what failed is tried again: what passes often
	// does so in a moment.
	breath = 2 * time.Second
	// installBudget covers two attempts, another install of the agent before this one,
	// and the start of a guest.
	installBudget = 64*time.Minute + bootTime
	// silence is how long a manager may write nothing. Large packages are unpacked
	// without a word, slowly under emulation.
	silence = 4 * time.Minute
)

// Installer installs packages in agents' rooms, for each agent one thing at a
// time: its managers have locks, and a half-made folder is no place to begin in.
// Agents do not wait for each other, since each room has a root of its own.
type Installer struct {
	rooms func(Agent) engine.Executor
	queue queue.Queues[config.AgentID]

	mu sync.Mutex
	// fresh is when an agent's index was last fetched.
	fresh map[config.AgentID]time.Time
}

// NewInstaller returns an installer.
func NewInstaller(rooms func(Agent) engine.Executor) *Installer {
	return &Installer{rooms: rooms, fresh: map[config.AgentID]time.Time{}}
}

// Installed is what was installed, and how that went.
type Installed struct {
	Installed []packages.Spec  `json:"installed"`
	Manager   packages.Manager `json:"manager"`
	ExitCode  int              `json:"exit_code"`
	Output    string           `json:"output" jsonschema:"what was installed, with versions"`
	LeftOut   []string         `json:"recommended,omitempty" jsonschema:"recommended packages that were left out; install those that you need"`
	Retried   bool             `json:"retried,omitempty" jsonschema:"it went well at the second attempt"`
}

// System installs packages with the manager of the guest's distribution, as Install does.
func (i *Installer) System(ctx context.Context, c *Call, names []string) (Installed, error) {
	m, err := i.system(ctx, c)
	if err != nil {
		return Installed{}, err
	}
	return i.Install(ctx, c, m, names)
}

// system is the manager of the guest's distribution. The room is asked, and not what
// the guest is made of: a pack that somebody brings may call itself anything.
func (i *Installer) system(ctx context.Context, c *Call) (packages.Manager, error) {
	_, err := i.run(ctx, c, command{args: []string{"apk", "--version"}})
	switch {
	case err == nil:
		return packages.APK, nil
	case absent(err, "apk"):
		return packages.APT, nil
	}
	return "", err
}

// Install installs packages for an agent and reports progress to the call. A failure
// is a *Failure whose member failure_class says why. What a failed install has brought
// is removed again; cleanup_failed says if that went wrong too. An install that the
// context ends is repaired by the next one.
func (i *Installer) Install(ctx context.Context, c *Call, m packages.Manager, names []string) (Installed, error) {
	specs, err := specsOf(m, names)
	if err != nil {
		return Installed{}, err
	}
	give, err := i.queue.Take(ctx, c.ID, func(ahead int) { c.Say("waiting for %d other install(s) of this agent", ahead) })
	if err != nil {
		return Installed{}, fault.Wrap("wait for the agent's other installs", string(c.Name), err)
	}
	defer give()
	return (&install{Installer: i, call: c, manager: m, specs: specs}).do(ctx)
}

// specsOf reads packages' names.
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

// command is one command of a manager.
type command struct {
	args []string
	root bool
	most uint64 // bytes of its output; 0 is as much as a model is shown
	// say, if not nil, gets its lines.
	say func(format string, args ...any)
}

// ran is how a command went.
type ran struct {
	exit   engine.Exit
	output string
	lost   uint64 // bytes of it that were left out
}

func (r ran) ok() bool { return r.exit.Status() == 0 && !r.exit.Idle }

// run runs a command to its end.
func (i *Installer) run(ctx context.Context, c *Call, cmd command) (ran, error) {
	if cmd.most == 0 {
		cmd.most = bytesFor(maxInstallOutput)
	}
	out := &teller{say: cmd.say}
	line := engine.Command{
		Args: cmd.args, Dir: c.Home, Env: environment(c.Agent), Stdout: out, Stderr: out, IdleTimeout: silence, MaxOutput: cmd.most,
	}
	if cmd.root { // in a folder where no agent can have put what a manager takes for a package
		line.RoomRoot, line.Dir, line.Env = true, "/", []string{"DEBIAN_FRONTEND=noninteractive"}
	}
	p, err := i.rooms(c.Agent).Exec(ctx, line)
	if err != nil {
		return ran{}, err
	}
	exit, err := p.Wait()
	return ran{exit, out.all.String(), exit.StdoutTruncated + exit.StderrTruncated}, err
}

// absent reports whether an error says that there is no such program.
func absent(err error, program string) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && e.Kind == fault.NotFound && e.Subject == program
}

// teller keeps what a manager writes, and has whoever waits read a line of it now
// and again.
type teller struct {
	all  bytes.Buffer
	say  func(format string, args ...any)
	last time.Time
}

const (
	// tellEvery is how often a line is told: a person reads no faster.
	tellEvery = time.Second
	// maxTold bounds it.
	maxTold = 200
)

func (t *teller) Write(p []byte) (int, error) {
	n, err := t.all.Write(p)
	if t.say == nil || time.Since(t.last) < tellEvery {
		return n, err
	}
	line := strings.TrimSpace(printable.LastLines(strings.TrimSpace(string(p)), 1))
	if line != "" {
		t.last = time.Now()
		t.say("%s", printable.First(line, maxTold))
	}
	return n, err
}
