package network

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// patience is how long tests wait for what should come at once.
const patience = time.Minute

var (
	server  = netip.MustParseAddr("203.0.113.5")
	private = netip.MustParseAddr("192.168.7.7")
)

// testRules is a policy of functions.
type testRules struct {
	decide func(policy.Target) policy.Decision
	byName bool
	opened bool
	named  bool
}

func (r testRules) Decide(t policy.Target, _ time.Time) policy.Decision { return r.decide(t) }
func (r testRules) Resolve(name string, _ time.Time) policy.Decision {
	return r.decide(policy.Target{Name: name})
}
func (r testRules) ByName() bool                         { return r.byName }
func (r testRules) HasNames(time.Time) bool              { return r.named }
func (r testRules) Opened(policy.Target, time.Time) bool { return r.opened }

var (
	allowed = policy.Decision{Action: policy.Allow}
	denied  = policy.Decision{Action: policy.Deny, Reason: "local networks are closed"}
	asked   = policy.Decision{Action: policy.Ask}
)

// lab is a gateway with a guest and an internet.
type lab struct {
	*Gateway
	t        *testing.T
	guest    *networktest.Guest
	internet *networktest.Internet
	alice    netip.Addr

	mu    sync.Mutex
	rules map[config.AgentID]testRules
	flows []Flow
	added chan struct{}
}

func newLab(t *testing.T, changes ...func(*Gateway)) *lab {
	t.Helper()
	goroutines, sockets := runtime.NumGoroutine(), openSockets()
	t.Cleanup(func() {
		waitFor(t, "all goroutines and sockets to be gone", func() bool {
			return runtime.NumGoroutine() <= goroutines && openSockets() <= sockets
		})
	})
	l := &lab{t: t, internet: networktest.NewInternet(), rules: map[config.AgentID]testRules{}, added: make(chan struct{}, 1<<16)}
	o := Options{Dialer: l.internet, Record: func(f Flow) {
		l.mu.Lock()
		l.flows = append(l.flows, f)
		l.mu.Unlock()
		l.added <- struct{}{}
	}}
	gateway := newGateway(o)
	gateway.policy = func(s Subject) rules {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.rules[s.Agent]
	}
	gateway.askTimeout = patience
	for _, change := range changes {
		change(gateway)
	}
	wire, err := gateway.listen()
	if err != nil {
		t.Fatal(err)
	}
	l.Gateway = gateway
	l.guest = networktest.NewGuest(t, wire)
	t.Cleanup(func() {
		if err := gateway.Close(); err != nil {
			t.Error(err)
		}
	})
	l.set("", testRules{decide: func(policy.Target) policy.Decision { return denied }})
	l.alice = l.room("alice", func(t policy.Target) policy.Decision {
		if t.Addr == server {
			return allowed
		}
		return denied
	})
	return l
}

// openSockets counts sockets. Go keeps pipes for copies between sockets.
func openSockets() (n int) {
	entries, _ := os.ReadDir("/dev/fd")
	for _, e := range entries {
		var s unix.Stat_t
		if fd, err := strconv.Atoi(e.Name()); err == nil && unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFSOCK {
			n++
		}
	}
	return n
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("waited too long for %s\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func (l *lab) set(agent config.AgentID, r testRules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules[agent] = r
}

func (l *lab) room(agent config.AgentID, decide func(policy.Target) policy.Decision) netip.Addr {
	l.t.Helper()
	l.set(agent, testRules{decide: decide})
	addr, err := l.Join(Subject{Agent: agent})
	if err != nil {
		l.t.Fatal(err)
	}
	l.guest.Add(l.t, addr)
	return addr
}

func (l *lab) dial(from netip.Addr, to netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := l.guest.Dial(ctx, from, netip.AddrPortFrom(to, port))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// flow waits for the next flow that is recorded.
func (l *lab) flow() Flow {
	l.t.Helper()
	select {
	case <-l.added:
	case <-time.After(patience):
		l.t.Fatal("no flow was recorded")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flows[0]
	l.flows = l.flows[1:]
	return f
}

func TestRelayCarriesBothWaysAndHalfCloses(t *testing.T) {
	l := newLab(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 7), networktest.Echo)
	c, err := l.dial(l.alice, server, 7)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789abcdef", 1<<16)
	back := make(chan string, 1)
	go func() {
		got, _ := io.ReadAll(c)
		back <- string(got)
	}()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-back; got != text {
		t.Fatalf("got %d bytes back, want %d", len(got), len(text))
	}
	c.Close()
	f := l.flow()
	if f.Subject.Agent != "alice" || f.Sent != int64(len(text)) || f.Received != int64(len(text)) || f.Error != "" ||
		f.Target.Addr != server || f.Target.Port != 7 || f.Decision.Action != policy.Allow || f.Ended.Before(f.Began) {
		t.Errorf("recorded %+v", f)
	}
}

func TestClosedPortAppearsClosed(t *testing.T) {
	l := newLab(t)
	if _, err := l.dial(l.alice, server, 9); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("got %v, want a refused connection", err)
	}
	if f := l.flow(); !strings.Contains(f.Error, "refused") || f.Decision.Action != policy.Allow {
		t.Errorf("recorded %+v", f)
	}
}

func TestRefusalsAreFast(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct {
		name string
		to   netip.Addr
		want string
	}{
		{"another address", netip.MustParseAddr("198.51.100.9"), "refused"},
		{"a private address", private, "no route"},
		{"the guest itself", subnet.Guest().Addr(), "no route"},
		{"a held address of nobody", subnet.Held().Addr().Next(), "no route"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := l.dial(l.alice, tt.to, 22)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if f := l.flow(); f.Decision.Action != policy.Deny || f.Decision.Reason == "" {
				t.Errorf("recorded %+v", f)
			}
		})
	}
	if dials := l.internet.Dials(); len(dials) > 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestRoomsDoNotReachEachOther(t *testing.T) {
	l := newLab(t)
	l.set("alice", testRules{decide: func(policy.Target) policy.Decision { return allowed }})
	// Inside one test stack the packet would not leave, so bob has no address in it.
	bob, err := l.Join(Subject{Agent: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.dial(l.alice, bob, 22); err == nil {
		t.Fatal("alice reached bob")
	}
	if f := l.flow(); f.Decision.Action != policy.Deny {
		t.Errorf("recorded %+v", f)
	}
}

func TestDatagramsAreRelayed(t *testing.T) {
	l := newLab(t)
	l.internet.ServeUDP(t, netip.AddrPortFrom(server, 5000), func(b []byte) []byte { return append([]byte("got "), b...) })
	c, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(server, 5000))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 65535)
	for _, text := range []string{"one", "", strings.Repeat("x", 9000)} {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != "got "+text {
			t.Fatalf("got %d bytes, %v", n, err)
		}
	}
	l.expire(time.Now().Add(datagramTimeout + time.Minute))
	if f := l.flow(); f.Sent != 9003 || f.Received != 9003+12 || f.Target.Protocol != policy.UDP {
		t.Errorf("recorded %+v", f)
	}
}

func TestN04RefusedDatagramsAreUnreachable(t *testing.T) {
	l := newLab(t)
	c, err := l.guest.DialUDP(l.alice, netip.MustParseAddrPort("198.51.100.9:5000"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the message that the port is unreachable", func() bool {
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := c.Read(make([]byte, 10))
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	if f := l.flow(); f.Decision.Action != policy.Deny {
		t.Errorf("recorded %+v", f)
	}
}

func TestAddressesStayAndRest(t *testing.T) {
	l := newLab(t)
	again, err := l.Join(Subject{Agent: "alice"})
	if err != nil || again != l.alice {
		t.Fatalf("got %v, %v, want %v", again, err, l.alice)
	}
	plugin, err := l.Join(Subject{Agent: "alice", Plugin: "p"})
	if err != nil || plugin == l.alice || !subnet.Rooms().Contains(plugin) || plugin == subnet.RoomRouter() {
		t.Fatalf("the plugin got %v, %v", plugin, err)
	}
	l.Leave("alice")
	now := time.Now()
	seen := map[netip.Addr]bool{}
	for i := range 3 * 250 { // every address of a smaller range would come again
		m, _, err := l.members.join(Subject{Agent: config.AgentID(rune(i))}, now)
		if err != nil {
			t.Fatal(err)
		}
		if m.addr == l.alice || m.addr == plugin || seen[m.addr] {
			t.Fatalf("%v was given again", m.addr)
		}
		seen[m.addr] = true
	}
	l.members.next = l.alice.Prev()
	if m, _, err := l.members.join(Subject{Agent: "bob"}, now.Add(addressRest-time.Minute)); err != nil || m.addr == l.alice {
		t.Errorf("bob got %v, %v, which has to rest", m, err)
	}
	l.members.next = l.alice.Prev()
	if m, _, err := l.members.join(Subject{Agent: "carol"}, now.Add(addressRest+time.Minute)); err != nil || m.addr != l.alice {
		t.Errorf("carol got %v, %v, want %v", m, err, l.alice)
	}
}
