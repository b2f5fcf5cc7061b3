package guesttest

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
)

// Suite is a booted guest whose rooms are tested.
type Suite struct {
	Client *guest.Client
	// Workspace is the host's folder that the guest has as /workspace.
	Workspace string
	// Chown gives an agent's folder in the workspace to its user, if the share supports owners.
	Chown func(folder string, uid uint32)
	// Intruder is the program of guesttest/intruder for the guest.
	Intruder []byte
	// Server is the address of a server behind the gateway, which greets connections with hello.
	Server string
	// ServerName is the same server, by a name that the gateway resolves.
	ServerName string
	// Join returns the address of a user's room, the same one until Restart.
	Join func(user config.LinuxUser) netip.Addr
	// NewToken makes a new bridge token for a user and revokes the old one. The bridge's config key
	// "who" returns the user.
	NewToken func(user config.LinuxUser, uid uint32) string
	// Serve serves folders to mount.
	Serve Serve
	// DistributionOnly skips cases that depend only on the kernel and the guest program, not on the
	// distribution or the share.
	DistributionOnly bool
	// Restart reboots the machine with the same disk.
	Restart func(*testing.T) *guest.Client
}

// agent is an agent of the tests, with a room.
type agent struct {
	suite *Suite
	engine.RoomConfig
	token string
	alone bool // without a network
}

// The agents of the tests. Bob attacks alice.
const (
	alice = "alice"
	bob   = "bob"
)

// secret is in alice's files, environment and memory only.
const secret = "s3cret-of-alice"

func (s *Suite) agent(ctx context.Context, t *testing.T, name string, uid uint32) *agent {
	t.Helper()
	a := s.describe(t, name, uid)
	a.token = s.NewToken(a.User, uid)
	if err := os.WriteFile(filepath.Join(a.onHost(), "intruder"), s.Intruder, 0o755); err != nil {
		t.Fatal(err)
	}
	a.ensure(ctx, t)
	return a
}

// room is the agent's room.
func (a *agent) room() engine.Room { return a.suite.Client.Room(a.User) }

// describe creates an agent's home, but no room.
func (s *Suite) describe(t *testing.T, name string, uid uint32) *agent {
	t.Helper()
	a := &agent{suite: s, RoomConfig: engine.RoomConfig{User: config.LinuxUser("agent-" + name), UID: uid, Home: guest.HomesDir + "/" + name, Hostname: name}}
	home := a.onHost()
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Chown("agents/"+name, uid)
	return a
}

// onHost is the path of the agent's home on the host.
func (a *agent) onHost() string {
	return filepath.Join(a.suite.Workspace, "agents", filepath.Base(a.Home))
}

func (a *agent) ensure(ctx context.Context, t *testing.T) bool {
	t.Helper()
	a.Address = netip.Addr{}
	if !a.alone {
		a.Address = a.suite.Join(a.User)
	}
	e, err := a.suite.Client.EnsureRoom(ctx, a.RoomConfig, a.token)
	if err != nil || len(e.Lacks) > 0 || e.Anew {
		t.Fatalf("room of %s: %v %+v", a.User, err, e)
	}
	return e.Made
}

// run runs a script as the agent and returns all that it wrote.
func (a *agent) run(ctx context.Context, t *testing.T, script string) (string, engine.Exit) {
	t.Helper()
	return a.command(ctx, t, engine.Command{Args: sh(script)})
}

// asRoot runs a script as root of the agent's room.
func (a *agent) asRoot(ctx context.Context, t *testing.T, script string) (string, engine.Exit) {
	t.Helper()
	return a.command(ctx, t, engine.Command{Args: sh(script), RoomRoot: true})
}

func (a *agent) command(ctx context.Context, t *testing.T, c engine.Command) (string, engine.Exit) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	exit, err := engine.Run(ctx, a.room(), c)
	if err != nil {
		t.Fatalf("%q as %s: %v\n%s", c.Args, a.User, err, &out)
	}
	return strings.TrimSpace(out.String()), exit
}

// begin starts a script as the agent and ends it with the test.
func (a *agent) begin(ctx context.Context, t *testing.T, script string) engine.Process {
	t.Helper()
	return a.beginTo(ctx, t, io.Discard, script)
}

// beginTo is begin with a writer that gets the output, too.
func (a *agent) beginTo(ctx context.Context, t *testing.T, to io.Writer, script string) engine.Process {
	t.Helper()
	ready := newWaiter("ready")
	ctx, cancel := context.WithCancel(ctx)
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.room().Exec(ctx, engine.Command{
		Args: sh("echo ready; " + script), Stdin: in, Stdout: io.MultiWriter(ready, to), Stderr: io.MultiWriter(ready, to), Env: []string{"TOKEN=" + secret}, Grace: time.Second,
	})
	if err != nil {
		cancel()
		t.Fatalf("%s as %s: %v", script, a.User, err)
	}
	t.Cleanup(func() {
		cancel()
		hold.Close()
		_, _ = p.Wait()
		in.Close()
	})
	ready.wait(ctx, t)
	return p
}

// roomPatience bounds one case of rooms. Some exhaust the guest.
const roomPatience = 10 * time.Minute

// RunRooms runs the cases of rooms. Beside the programs of RunExec the guest
// needs ls, find, ln, cp, chmod, mkdir, id and seq.
func RunRooms(t *testing.T, s *Suite) {
	ctx := bounded(t)
	a, b := s.agent(ctx, t, alice, 2001), s.agent(ctx, t, bob, 2002)
	cases := func(name string, list []roomCase) {
		t.Run(name, func(t *testing.T) {
			for _, c := range list {
				t.Run(c.name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(context.Background(), roomPatience)
					defer cancel()
					a.ensure(ctx, t)
					b.ensure(ctx, t)
					c.run(ctx, t, a, b)
				})
			}
		})
	}
	cases("Room", slices.Concat(lifeCases(), unless(s.DistributionOnly, moreLifeCases)))
	cases("Shells", shellCases())
	cases("Attack", attackCases())
	cases("Network", slices.Concat(networkCases(), unless(s.DistributionOnly, moreNetworkCases)))
	cases("Mounts", mountCases())
	cases("Snapshots", snapshotCases())
	cases("Bridge", bridgeCases())
	cases("Plugin", pluginCases())
	if s.DistributionOnly {
		return
	}
	cases("Stop", stopCases())
	cases("Hog", hogCases())
	cases("Layer", layerCases())
}

func unless(skip bool, list func() []roomCase) []roomCase {
	if skip {
		return nil
	}
	return list()
}

type roomCase struct {
	name string
	run  func(ctx context.Context, t *testing.T, alice, bob *agent)
}
