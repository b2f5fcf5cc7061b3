// Package diagnose tries whether a sandbox really does what agents need of it, and says what to do where it does not.
package diagnose

import (
	"context"
	"fmt"
	"iter"
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
	"osaurus-sandbox/vm"
)

const (
	// anyTarget is what the network check fetches in a guest whose package tool does not
	// say what it asks, over plain HTTP, which every guest's tools speak.
	anyTarget = "http://dl-cdn.alpinelinux.org/alpine/MIRRORS.txt"
	// maxTargets bounds the mirrors that are tried, as two that do not answer take all of limit.
	maxTargets = 2
	// askLimit is what the package tool may take to say them: the checks wait for it.
	askLimit = 10 * time.Second

	// limit is what one check may take. The network is the slowest, and what
	// takes longer than this is of no use to anybody.
	limit = 30 * time.Second
	// maxOutput bounds what is kept of a command's output.
	maxOutput = 4 << 10

	cause machine.Cause = "diagnose"
)

// Sandbox is what is diagnosed: a supervisor.
type Sandbox interface {
	Home() config.Home
	Status() machine.Status
	Start(context.Context, machine.Cause) error
	Exec(context.Context, engine.Command) (machine.Process, error)
	Info(context.Context) (guest.Info, error)
}

// Agents are those of the sandbox: an *agents.Agents.
type Agents interface {
	Diagnostic(context.Context, machine.Cause) (agents.Agent, error)
	Exec(ctx context.Context, ref string, cmd engine.Command) (machine.Process, error)
}

// Result is what came of a check.
type Result struct {
	Name   string
	Did    string // what was done
	Detail string // what it showed, if it passed
	Err    error  // why it did not; its advice says what to do
	Took   time.Duration
}

// Passed reports whether all is well.
func (r Result) Passed() bool { return r.Err == nil }

// Found is what came of it, in words.
func (r Result) Found() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return r.Detail
}

// Advice says what to do, where it failed.
func (r Result) Advice() string { return fault.AdviceOf(r.Err) }

// Target is what the network check fetches. The zero Target stands for what the guest's
// package tool asks: what agents need the network for first.
type Target struct{ url *url.URL }

func (t Target) String() string {
	if t.url == nil {
		return ""
	}
	return t.url.String()
}

// ParseTarget reads an address such as http://example.com/file.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil) {
		err = fmt.Errorf("not an address of HTTP without a user")
	}
	if err != nil {
		return Target{}, fault.New(fault.InvalidArgs, "read network target", text, err).Advise("Write it as http://example.com/file.")
	}
	return Target{u}, nil
}

// check is one check. It answers what it showed.
type check struct {
	name, did string
	do        func(context.Context, bench) (string, error)
}

// bench is what checks work on.
type bench struct {
	Sandbox
	agents Agents
	agent  func() (agents.Agent, error) // as whom agents' work is tried
	target Target
}

// Run starts the guest if need be, does every check at once, and yields each
// result as it is there. What this guest does not have is not checked. It ends
// early with its context.
func Run(ctx context.Context, s Sandbox, who Agents, target Target) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		b := bench{s, who, sync.OnceValues(func() (agents.Agent, error) { return who.Diagnostic(ctx, cause) }), target}
		results := make(chan Result)
		begin := func(c check) {
			all.Go(func() {
				r := c.run(ctx, b)
				select {
				case results <- r:
				case <-ctx.Done():
				}
			})
		}
		begin(check{"disk-host", "ask the home's file system for its room", hostRoom})
		count := 1
		started := check{"start", "start the guest", func(ctx context.Context, b bench) (string, error) {
			err := b.Start(ctx, cause)
			return string(b.Status().State), err
		}}
		// A start has deadlines of its own.
		if r := started.timed(ctx, b); !r.Passed() {
			if !yield(r) {
				return
			}
		} else {
			for _, c := range guestChecks(ctx, b) {
				begin(c)
				count++
			}
		}
		for range count {
			select {
			case r := <-results:
				if !yield(r) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// guestChecks are those that this guest can be asked.
func guestChecks(ctx context.Context, b bench) []check {
	checks := []check{
		{"exec", "run `echo " + greeting + "` in the guest", exec},
		{"vsock", fmt.Sprintf("ask the guest %d times how it is", roundTrips), vsock},
		{"virtiofs-to-guest", "write a file into the workspace here, and read it in the guest", toGuest},
		{"virtiofs-to-host", "write a file into the workspace in the guest, and read it here", toHost},
		{"clock", "compare the guest's clock with this computer's", clock},
		{"disk-guest", "ask the guest for the room on its disk", guestRoom},
		{"agent-user", "run `id` as the agent " + string(agents.Diagnostic) + ", and write a file into its home", agentUser},
		{"bridge", "have a program of that agent ask this host", askHost},
	}
	tool := packageTool(ctx, b)
	status := b.Status()
	if m := status.Machine; m != nil && m.Network != vm.NetworkNone {
		addresses, names := b.targets(ctx, tool)
		checks = append(checks, check{"nat", "fetch " + strings.Join(addresses, " or ") + " in the guest", fetch(addresses)})
		if len(names) > 0 {
			checks = append(checks, check{"dns", "look " + strings.Join(names, " or ") + " up in the guest", lookUp(names)})
		}
	}
	if tool != nil {
		checks = append(checks, check{"packages", "run `" + tool.command + "` as root of an agent's room", tool.try})
	}
	return checks
}

// targets are what is fetched to prove the network, of which one answer is enough, and the
// names in them.
func (b bench) targets(ctx context.Context, tool *tool) (addresses, names []string) {
	list := []string{b.target.String()}
	if b.target.url == nil {
		list = tool.mirrors(ctx, b)
	}
	for _, text := range list {
		t, err := ParseTarget(text)
		if err != nil {
			continue
		}
		addresses = append(addresses, text)
		if name := t.url.Hostname(); isName(name) {
			names = append(names, name)
		}
	}
	return addresses, names
}

func (c check) run(ctx context.Context, b bench) Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.timed(ctx, b)
}

func (c check) timed(ctx context.Context, b bench) Result {
	began := time.Now()
	detail, err := c.do(ctx, b)
	return Result{Name: c.name, Did: c.did, Detail: detail, Err: err, Took: time.Since(began)}
}

// sh runs a script in the guest: see run.
func (b bench) sh(ctx context.Context, script string, args ...string) (string, error) {
	return b.run(ctx, append([]string{"sh", "-c", script, "sh"}, args...)...)
}

// run runs a command in the guest: see collect.
func (b bench) run(ctx context.Context, args ...string) (string, error) {
	return collect(ctx, engine.Command{Args: args}, b.Exec)
}

// inRoom runs a script in an agent's room: see collect.
func (b bench) inRoom(ctx context.Context, asRoot bool, script string) (string, error) {
	agent, err := b.agent()
	if err != nil {
		return "", err
	}
	return collect(ctx, engine.Command{Args: []string{"sh", "-c", script}, RoomRoot: asRoot}, func(ctx context.Context, cmd engine.Command) (machine.Process, error) {
		return b.agents.Exec(ctx, string(agent.Name), cmd)
	})
}

// collect runs a command and returns what it wrote, without the space around. An
// exit code other than 0 is an error that quotes it.
func collect(ctx context.Context, cmd engine.Command, start func(context.Context, engine.Command) (machine.Process, error)) (string, error) {
	var out bounded
	cmd.Stdout, cmd.Stderr, cmd.Timeout = &out, &out, limit
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

// bounded keeps the beginning of what is written to it.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	b.Builder.Write(p[:min(len(p), max(0, maxOutput-b.Len()))])
	return len(p), nil
}

// advise gives an error advice, unless it has some.
func advise(err error, advice string) error {
	if err == nil || fault.AdviceOf(err) != "" {
		return err
	}
	return fault.Wrap("", "", err).Advise(advice)
}
