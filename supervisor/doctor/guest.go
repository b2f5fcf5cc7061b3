package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

const (
	// defaultTarget is fetched to test the network if the guest's package tool
	// names no mirror. Every guest can fetch plain HTTP.
	defaultTarget = "http://dl-cdn.alpinelinux.org/alpine/MIRRORS.txt"
	mirrorTimeout = 10 * time.Second // to ask the package tool for its mirrors
	checkTimeout  = 30 * time.Second
	maxOutput     = 4 << 10 // kept of each stream of a command's output
	maxChecks     = 32      // there are 13

	cause machine.Cause = "diagnose"
)

// Sandbox runs the guest that Diagnose checks. *machine.Machine implements it.
type Sandbox interface {
	Home() config.Home
	Status() machine.Status
	Start(context.Context, machine.Cause) error
	Exec(context.Context, engine.Command) (engine.Process, error)
	Info(context.Context) (*guest.Info, error)
}

// Agents runs commands in the room of a test agent. *agents.Agents implements it.
type Agents interface {
	Diagnostic(context.Context, machine.Cause) (agents.Agent, error)
	Exec(ctx context.Context, ref string, cmd engine.Command) (engine.Process, error)
}

// Result is the result of one check.
type Result struct {
	Name   string
	Did    string // what the check does
	Detail string // what it found, if it passed
	Err    error  // why it failed, with advice
	Took   time.Duration
}

// Passed reports whether the check passed.
func (r Result) Passed() bool { return r.Err == nil }

// Found returns the detail or the error's text.
func (r Result) Found() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return r.Detail
}

// Advice says what to do if the check failed.
func (r Result) Advice() string { return fault.AdviceOf(r.Err) }

// Target is the address that the network check fetches. The empty Target stands for
// the first mirror of the guest's package tool, which agents need first.
type Target string

// ParseTarget reads an address such as http://example.com/file, or none.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	if err == nil && text != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil) {
		err = errors.New("not an http or https address, or it has a user name")
	}
	if err != nil {
		return "", fault.New(fault.InvalidArgs, "read network target", text, err).Advise("Use the form http://example.com/file.")
	}
	return Target(text), nil
}

// check is one check. Its function returns what it found. Errors without advice get
// that of the check.
type check struct {
	name, did, advice string
	do                func(context.Context, checker) (string, error)
}

// checker has the sandbox and agents that checks use.
type checker struct {
	Sandbox
	agents Agents
	agent  func() (agents.Agent, error) // the test agent, made once
	target Target
}

// Diagnose starts the guest if it does not run, runs all checks concurrently and
// yields each result when it is known. It skips checks that this guest cannot do,
// and ends early with its context.
func Diagnose(ctx context.Context, s Sandbox, who Agents, target Target) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		b := checker{s, who, sync.OnceValues(func() (agents.Agent, error) { return who.Diagnostic(ctx, cause) }), target}
		results := make(chan Result, maxChecks)
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		do := func(c check) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, checkTimeout)
				defer cancel()
				results <- c.run(ctx, b)
			})
		}
		do(check{"disk-host", "look at the free disk space of the home", "", hostSpace})
		all.Go(func() {
			start := check{"start", "start the guest", "", func(ctx context.Context, b checker) (string, error) { return "", b.Start(ctx, cause) }}
			if r := start.run(ctx, b); !r.Passed() { // it has its own deadlines
				results <- r
				return
			}
			for _, c := range guestChecks(ctx, b) {
				do(c)
			}
		})
		go func() {
			all.Wait()
			close(results)
		}()
		for r := range results {
			if !yield(r) {
				return
			}
		}
	}
}

// guestChecks returns the checks that this guest can do.
func guestChecks(ctx context.Context, b checker) []check {
	checks := []check{
		{"exec", "run `echo " + greeting + "` in the guest", restartAdvice, checkExec},
		{"vsock", fmt.Sprintf("ask the guest for its state %d times", roundTrips), restartAdvice, checkVsock},
		{"virtiofs-to-guest", "write a file into the workspace here, and read it in the guest", shareAdvice, shareToGuest},
		{"virtiofs-to-host", "write a file into the workspace in the guest, and read it here", shareAdvice, shareToHost},
		{"clock", "compare the guest's clock with this computer's", restartAdvice, checkClock},
		{"disk-guest", "look at the free space of the guest's disk", restartAdvice, guestSpace},
		{"agent-user", "run `id` as the agent " + string(agents.Diagnostic) + ", and write a file into its home", roomAdvice, checkAgent},
		{"bridge", "call this computer from a program of that agent", restartAdvice, checkBridge},
	}
	tool := findPackageTool(ctx, b)
	status := b.Status()
	if m := status.Machine; m != nil && m.Network {
		target := cmp.Or(string(b.target), tool.address(ctx, b))
		checks = append(checks, check{"network", "fetch " + target + " in the guest", networkAdvice, networked(target, fetch)})
		if u, err := url.Parse(target); err == nil && !isAddress(u.Hostname()) {
			checks = append(checks, check{"dns", "resolve " + u.Hostname() + " in the guest", dnsAdvice, networked(u.Hostname(), resolve)})
		}
	}
	if tool != nil {
		checks = append(checks, check{"packages", "run `" + tool.command + "` as root of an agent's room", packagesAdvice, tool.check})
	}
	return checks
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func (c check) run(ctx context.Context, b checker) Result {
	began := time.Now()
	detail, err := c.do(ctx, b)
	return Result{Name: c.name, Did: c.did, Detail: detail, Err: advise(err, c.advice), Took: time.Since(began)}
}

// sh runs a script in the guest: see collect.
func (b checker) sh(ctx context.Context, script string, args ...string) (string, error) {
	return b.run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
}

// run runs a command in the guest: see collect.
func (b checker) run(ctx context.Context, args ...string) (string, error) {
	return collect(ctx, engine.Command{Args: args}, b.Exec)
}

// inRoom runs a script in an agent's room: see collect.
func (b checker) inRoom(ctx context.Context, asRoot bool, script string) (string, error) {
	agent, err := b.agent()
	if err != nil {
		return "", err
	}
	return collect(ctx, engine.Command{Args: []string{"sh", "-c", script}, RoomRoot: asRoot}, func(ctx context.Context, cmd engine.Command) (engine.Process, error) {
		return b.agents.Exec(ctx, string(agent.Name), cmd)
	})
}

// collect runs a command and returns its trimmed output. If the exit code is not 0,
// it returns an error that quotes the output.
func collect(ctx context.Context, cmd engine.Command, start func(context.Context, engine.Command) (engine.Process, error)) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Timeout, cmd.MaxOutput = &out, &out, checkTimeout, maxOutput
	process, err := start(ctx, cmd)
	if err != nil {
		return "", err
	}
	exit, err := process.Wait()
	text := strings.TrimSpace(out.String())
	if err == nil && exit.Status() != 0 {
		err = fault.Newf(fault.Execution, "run in guest", "", "exit code %d: %s", exit.Status(), text)
	}
	return text, err
}

// advise adds advice to an error that has none.
func advise(err error, advice string) error {
	if err == nil || fault.AdviceOf(err) != "" {
		return err
	}
	return fault.Wrap("", "", err).Advise(advice)
}
