package guesttest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
)

// hogCases are what bob uses up. Alice goes on working, and he is told why he does
// not.
func hogCases() []roomCase {
	hog := func(script string, reason func(guest.Exit) bool) func(context.Context, *testing.T, *agent, *agent) {
		return func(ctx context.Context, t *testing.T, alice, bob *agent) { runHog(ctx, t, alice, bob, script, reason) }
	}
	oom := func(e guest.Exit) bool { return e.OOM }
	full := func(e guest.Exit) bool { return e.Quota && e.Status() != 0 }
	return []roomCase{
		{"Forks", hog("exec /tmp/intruder hog-forks 8", func(e guest.Exit) bool { return e.PIDs })},
		{"Memory", hog("exec /tmp/intruder hog-memory", oom)},
		{"SharedMemory", hog("for i in 1 2 3 4 5 6 7 8; do head -c 30000000 /dev/zero > /dev/shm/$i; done; /tmp/intruder hog-memory", oom)},
		{"Disk", hog("exec /tmp/intruder hog-disk /tmp/big", full)},
		{"Files", hog("mkdir -p /tmp/many && exec /tmp/intruder hog-files /tmp/many", full)},
		{"Descriptors", hog("exec /tmp/intruder hog-descriptors 5", func(e guest.Exit) bool { return e.OOM || e.PIDs })},
		{"Processor", hog("exec /tmp/intruder hog-cpu 5", func(e guest.Exit) bool { return e.Status() == 0 })},
		{"Live", liveLimits},
	}
}

// hogLimits leave bob little, so that he is soon at them.
func hogLimits() guest.Limits {
	return guest.Limits{Memory: 96 << 20, PIDs: 64, Disk: 48 << 20, DiskFiles: 1500}
}

const (
	// answersWithin is what alice's commands may take beside bob at his worst, and
	// where the processor is emulated, as a multiple of what they take without him.
	answersWithin = time.Second
	slower        = 20
	// hogTime ends a hog that does not end by itself, on however slow a computer.
	hogTime = 2 * time.Minute
	// fewTries are enough for one in which the host has nothing else to do. A wall
	// that is missing is missing in all of them.
	fewTries = 5
)

func runHog(ctx context.Context, t *testing.T, alice, bob *agent, script string, reason func(guest.Exit) bool) {
	c := bob.house.Client
	if err := c.SetRoomLimits(ctx, bob.User, hogLimits()); err != nil {
		t.Fatal(err)
	}
	// Others may use the host too, for a moment. It is one of a few tries that must be
	// quick; what bob is told must be right each time.
	for try := 1; ; try++ {
		waited, limit := besideHog(ctx, t, alice, bob, script, reason)
		if waited <= limit {
			break
		}
		if try == fewTries {
			t.Errorf("alice waited %v, more than %v", waited, limit)
			break
		}
	}
	// He can clean up and go on.
	if out, exit := bob.run(ctx, t, cleanUp); out != "fine" {
		t.Errorf("bob afterwards: %+v %s", exit, out)
	}
	if err := c.SetRoomLimits(ctx, bob.User, guest.Limits{}); err != nil {
		t.Error(err)
	}
	if bob.ensure(ctx, t) {
		t.Error("bob's room died of it")
	}
}

// besideHog says how long alice waits for her commands while bob runs his script, and
// how long she may.
func besideHog(ctx context.Context, t *testing.T, alice, bob *agent, script string, reason func(guest.Exit) bool) (waited, limit time.Duration) {
	t.Helper()
	quiet := latencies(ctx, t, alice, func(n int) bool { return n < 10 })
	// Not from the share, which would be what is measured.
	if out, exit := bob.run(ctx, t, "cp intruder /tmp"); exit.Status() != 0 {
		t.Fatal(out)
	}
	p, err := bob.house.Client.Exec(ctx, guest.Command{Args: sh(script), Room: bob.User, Timeout: hogTime, Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	loud := latencies(ctx, t, alice, func(n int) bool {
		select {
		case <-p.Done():
			return n < 5
		default:
			return true
		}
	})
	exit, err := p.Wait()
	if err != nil || !reason(exit) {
		t.Errorf("bob is told %+v, %v", exit, err)
	}
	median, worst := quiet[len(quiet)/2], loud[len(loud)*99/100]
	t.Logf("alice alone: median %v; beside bob: median %v, p99 %v of %d; bob: %+v", median, loud[len(loud)/2], worst, len(loud), exit)
	bob.run(ctx, t, cleanUp)
	return worst, max(answersWithin, slower*median)
}

// cleanUp is what bob does when his room is full.
const cleanUp = "rm -rf /tmp/* /dev/shm/* 2>/dev/null; echo fine"

// latencies are how long alice's commands take, sorted.
func latencies(ctx context.Context, t *testing.T, a *agent, more func(int) bool) []time.Duration {
	t.Helper()
	var took []time.Duration
	for more(len(took)) {
		began := time.Now()
		if _, exit := a.command(ctx, t, guest.Command{Args: []string{"true"}}); exit.Status() != 0 {
			t.Fatalf("alice's command: %+v", exit)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took
}

// liveLimits: what is set counts at once, also for what runs.
func liveLimits(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.house.Client
	bob.begin(ctx, t, "sleep 1000")
	if err := c.SetRoomLimits(ctx, bob.User, guest.Limits{PIDs: 4, CPUMaxMillis: 500, CPUWeight: 50, IO: 10 << 20}); err != nil {
		t.Fatal(err)
	}
	use, err := c.RoomUsages(ctx, bob.User)
	if err != nil || len(use) != 1 || use[0].Limits.PIDs != 4 || use[0].Limits.CPUMaxMillis != 500 {
		t.Errorf("%+v %v", use, err)
	}
	out, exit := bob.run(ctx, t, "sleep 1 & sleep 1 & sleep 1 & sleep 1 & wait; echo end")
	if !exit.PIDs {
		t.Errorf("%+v %s", exit, out)
	}
	if got := output(ctx, t, c, "cd /sys/fs/cgroup/rooms/agent-bob; cat cpu.max cpu.weight pids.max memory.swap.max 2>/dev/null || true; cat io.max"); !strings.HasPrefix(got, "50000 100000\n50\n4") || !strings.Contains(got, "rbps=10485760") {
		t.Errorf("the kernel has %s", got)
	}
	if err := c.SetRoomLimits(ctx, bob.User, guest.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetRoomLimits(ctx, "agent-nobody", guest.Limits{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("limits of nobody: %v", err)
	}
}

// networkCases are what a room reaches.
func networkCases() []roomCase {
	return []roomCase{{"Outbound", outbound}, {"RoomToRoom", roomToRoom}, {"RoomToGuest", roomToGuest}, {"None", noNetwork}, {"IPv6", onlyLoopbackHasIPv6}, {"Connections", connections}}
}

// connections: of the kernel's one table of connections bob can fill only a part, and
// alice has new ones meanwhile.
func connections(ctx context.Context, t *testing.T, alice, bob *agent) {
	const most = 4096
	c := alice.house.Client
	uplink := mustInfo(ctx, t, c).Network.Address
	nobody := uplink[:strings.LastIndex(uplink, ".")] + ".77" // whom packets wait for, and never leave
	const forget = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout"
	usual := output(ctx, t, c, "cat "+forget+"; echo 8 >"+forget)
	defer output(ctx, t, c, "echo "+usual+" >"+forget)
	count := func() (n int) {
		if _, err := fmt.Sscan(output(ctx, t, c, "cat /proc/sys/net/netfilter/nf_conntrack_count"), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// What he has is forgotten while he asks for more, on a slow computer.
	eventually(ctx, t, func() bool {
		if out, exit := bob.run(ctx, t, fmt.Sprint("./intruder hog-connections ", nobody, " ", 2*most)); exit.Status() != 0 {
			t.Fatal(out)
		}
		n := count()
		if n > most+100 {
			t.Errorf("the table holds %d connections", n)
		}
		return n >= most && strings.HasPrefix(dialFrom(ctx, t, bob, bob.house.Server), "refused") &&
			dialFrom(ctx, t, alice, alice.house.Server) == "connected: hello"
	})
	connects(ctx, t, bob, bob.house.Server)
}

// onlyLoopbackHasIPv6: whenever the cable comes, no address of IPv6 is on it.
func onlyLoopbackHasIPv6(ctx context.Context, t *testing.T, alice, _ *agent) {
	const times = 5 // of a race
	for range times {
		if err := alice.house.Client.RemoveRoom(ctx, alice.User, false); err != nil {
			t.Fatal(err)
		}
		alice.ensure(ctx, t)
		out, exit := alice.run(ctx, t, "cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6; cat /proc/net/if_inet6")
		lines := strings.Split(out, "\n")
		if exit.Status() != 0 || len(lines) != 2 || lines[0] != "1" || !strings.HasSuffix(lines[1], " lo") {
			t.Errorf("%+v %s", exit, out)
		}
	}
}

// connects waits until an agent reaches a server.
func connects(ctx context.Context, t *testing.T, a *agent, address string) {
	t.Helper()
	eventually(ctx, t, func() bool { return dialFrom(ctx, t, a, address) == "connected: hello" })
}

func dialFrom(ctx context.Context, t *testing.T, a *agent, address string) string {
	t.Helper()
	out, _ := a.run(ctx, t, "./intruder dial tcp "+address)
	return out
}

func outbound(ctx context.Context, t *testing.T, alice, bob *agent) {
	for _, a := range []*agent{alice, bob} {
		connects(ctx, t, a, a.house.Server)
	}
	use, err := alice.house.Client.RoomUsages(ctx, alice.User)
	if err != nil || use[0].Received == 0 || use[0].Sent == 0 {
		t.Errorf("%+v %v", use, err)
	}
}

// addressOf is a room's own, as its kernel says it.
func addressOf(ctx context.Context, t *testing.T, a *agent) string {
	t.Helper()
	out, _ := a.run(ctx, t, "cat /proc/net/fib_trie")
	for line := range strings.Lines(out) {
		if i := strings.Index(line, "198.19."); i >= 0 {
			return strings.TrimSpace(line[i:])
		}
	}
	t.Fatalf("%s has no address:\n%s", a.User, out)
	return ""
}

func roomToRoom(ctx context.Context, t *testing.T, alice, bob *agent) {
	address := addressOf(ctx, t, alice) + ":4712"
	alice.begin(ctx, t, "exec ./intruder listen tcp 0.0.0.0:4712")
	connects(ctx, t, alice, address)
	if out := dialFrom(ctx, t, bob, address); !strings.HasPrefix(out, "refused") {
		t.Errorf("bob reaches alice: %s", out)
	}
}

func roomToGuest(ctx context.Context, t *testing.T, alice, bob *agent) {
	c := alice.house.Client
	output(ctx, t, c, "cp "+bob.Home+"/intruder /tmp/intruder")
	in := newWaiter("listen ok")
	stop, cancel := context.WithCancel(ctx)
	hold, feed := io.Pipe()
	p, err := c.Exec(stop, guest.Command{Args: []string{"/tmp/intruder", "listen", "tcp", "0.0.0.0:4713"}, Stdin: hold, Stdout: in})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); feed.Close(); _, _ = p.Wait() }()
	in.wait(ctx, t)
	eventually(ctx, t, func() bool { return output(ctx, t, c, "/tmp/intruder dial tcp 198.18.0.1:4713") == "connected: hello" })
	info := mustInfo(ctx, t, c)
	uplink, _, _ := strings.Cut(info.Network.Address, "/")
	for _, address := range []string{"198.18.0.1:4713", uplink + ":4713"} {
		if out := dialFrom(ctx, t, bob, address); !strings.HasPrefix(out, "refused") {
			t.Errorf("bob reaches the guest at %s: %s", address, out)
		}
	}
}

// noNetwork: loopback and nothing else, switched while the room lives.
func noNetwork(ctx context.Context, t *testing.T, _, bob *agent) {
	p := bob.begin(ctx, t, "exec ./intruder listen tcp 127.0.0.1:4714")
	bob.Network = guest.RoomAlone
	defer func() {
		bob.Network = guest.RoomOutbound
		bob.ensure(ctx, t)
		connects(ctx, t, bob, bob.house.Server) // switched back
	}()
	bob.ensure(ctx, t)
	alive(ctx, t, bob, p)
	if out := dialFrom(ctx, t, bob, bob.house.Server); !strings.HasPrefix(out, "refused") {
		t.Errorf("without a network: %s", out)
	}
	connects(ctx, t, bob, "127.0.0.1:4714")
	if out, _ := bob.run(ctx, t, "ls /proc/sys/net/ipv4/conf"); strings.Join(strings.Fields(out), " ") != "all default lo" {
		t.Errorf("its devices: %s", out)
	}
}

// layerCases are what stays of a room, and what does not.
func layerCases() []roomCase {
	return []roomCase{{"Reset", resetLayer}, {"Remove", removeRoom}, {"AnotherBase", anotherBase}, {"Restart", restartGuest}}
}

// mark leaves something in each place of a room that could keep it.
func mark(ctx context.Context, t *testing.T, a *agent) {
	t.Helper()
	if out, exit := a.asRoot(ctx, t, "echo layer > /etc/mark"); exit.Status() != 0 {
		t.Fatal(out)
	}
	if out, exit := a.run(ctx, t, "echo home > mark; echo heavy > .venv/mark; echo tmp > /tmp/mark"); exit.Status() != 0 {
		t.Fatal(out)
	}
}

func marks(ctx context.Context, t *testing.T, a *agent) string {
	t.Helper()
	out, _ := a.run(ctx, t, "cat mark .venv/mark /etc/mark /tmp/mark 2>/dev/null")
	return strings.Join(strings.Fields(out), " ")
}

func resetLayer(ctx context.Context, t *testing.T, alice, bob *agent) {
	mark(ctx, t, bob)
	mark(ctx, t, alice)
	p := bob.begin(ctx, t, "sleep 1000")
	if err := bob.house.Client.ResetRoom(ctx, bob.User); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("what ran: %v", err)
	}
	if !bob.ensure(ctx, t) {
		t.Error("the room outlived its reset")
	}
	if got := marks(ctx, t, bob); got != "home" {
		t.Errorf("after a reset: %s", got)
	}
	if got := marks(ctx, t, alice); got != "home heavy layer tmp" {
		t.Errorf("alice: %s", got)
	}
	// What was thrown away is not counted any more, as soon as it is deleted.
	eventually(ctx, t, func() bool {
		use, err := bob.house.Client.RoomUsages(ctx, bob.User)
		return err == nil && use[0].DiskFiles < 30
	})
}

func removeRoom(ctx context.Context, t *testing.T, _, bob *agent) {
	c := bob.house.Client
	mark(ctx, t, bob)
	if err := c.RemoveRoom(ctx, bob.User, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(ctx, guest.Command{Args: sh("true"), Room: bob.User}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a command in a room that was removed: %v", err)
	}
	another := bob.Room
	another.UID = 2777
	if _, err := c.EnsureRoom(ctx, another, ""); fault.KindOf(err) != fault.Rejected {
		t.Errorf("another user got bob's layer: %v", err)
	}
	bob.ensure(ctx, t)
	if got := marks(ctx, t, bob); got != "home heavy layer" {
		t.Errorf("the layer that was kept: %s", got)
	}
	if err := c.RemoveRoom(ctx, bob.User, true); err != nil {
		t.Fatal(err)
	}
	if got := output(ctx, t, c, "ls /run/osaurus/data/rooms /sys/fs/cgroup/rooms /run/osaurus/rooms"); strings.Contains(got, string(bob.User)) {
		t.Errorf("left of it: %s", got)
	}
	bob.ensure(ctx, t)
	if got := marks(ctx, t, bob); got != "home" {
		t.Errorf("after its removal: %s", got)
	}
	bob.isAnswered(ctx, t)
}

// anotherBase: what was put onto another base does not cover this one, and is said to be gone.
func anotherBase(ctx context.Context, t *testing.T, _, bob *agent) {
	const layer = "/run/osaurus/data/rooms/"
	mark(ctx, t, bob)
	for _, tc := range []struct {
		name, base, marks string
		anew              bool
	}{
		{"this one", "", "home heavy layer", false},
		{"one that nobody has noted", "rm " + layer + string(bob.User) + "/base", "home heavy layer", false},
		{"another", "printf another > " + layer + string(bob.User) + "/base", "home", true},
		{"this one again", "", "home", false},
	} {
		if err := bob.house.Client.RemoveRoom(ctx, bob.User, false); err != nil {
			t.Fatal(err)
		}
		output(ctx, t, bob.house.Client, "set -e; test -s "+layer+string(bob.User)+"/base; "+tc.base)
		e, err := bob.house.Client.EnsureRoom(ctx, bob.Room, bob.token)
		if err != nil || e.Anew != tc.anew || len(e.Lacks) > 0 {
			t.Fatalf("%s: %+v %v", tc.name, e, err)
		}
		if got := marks(ctx, t, bob); got != tc.marks {
			t.Errorf("begun on %s: %s", tc.name, got)
		}
	}
}

// restartGuest: a layer is on the disk.
func restartGuest(ctx context.Context, t *testing.T, alice, bob *agent) {
	mark(ctx, t, alice)
	before := alice.token
	alice.house.Client = alice.house.Restart(t)
	alice.token, bob.token = alice.house.Mint(alice.User, alice.UID), bob.house.Mint(bob.User, bob.UID)
	if _, err := alice.house.Client.Exec(ctx, guest.Command{Args: sh("true"), Room: alice.User}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("before the room is made again: %v", err)
	}
	if !alice.ensure(ctx, t) {
		t.Error("a room outlived its guest")
	}
	if got := marks(ctx, t, alice); got != "home heavy layer" {
		t.Errorf("after a restart: %s", got)
	}
	bob.ensure(ctx, t)
	if out, _ := alice.run(ctx, t, fmt.Sprintf("echo %s", secret)); out != secret {
		t.Error(out)
	}
	alice.isAnswered(ctx, t)
	bob.isAnswered(ctx, t)
	if got := alice.asks(ctx, t, asIs, before); !strings.HasPrefix(got, notKnown) {
		t.Errorf("the token of the boot before: %s", got)
	}
}
