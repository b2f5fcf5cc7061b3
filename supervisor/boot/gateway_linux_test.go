package boot_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/pack"
)

// TestGateway boots a guest of each distribution behind an internet of the test, and checks from
// inside of rooms what each room's policy lets them reach, and what their programs print.
func TestGateway(t *testing.T) {
	for _, c := range []struct {
		name string
		pack func(*testing.T) pack.Pack
	}{
		{"Debian", func(t *testing.T) pack.Pack { return lab.DebianPackFor(t, native()) }},
		{"Alpine", func(t *testing.T) pack.Pack { return lab.ReleasePack(t, native(), false) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.pack(t)
			h, w := newHome(t, lab.Image(t, p), vm.OwnershipSubtree), newWorld(t)
			h.network = w.options()
			h.boot(t)
			s := &gatewaySuite{h, w, map[config.AgentID]*tenant{}}
			program := intruder(t, p.Manifest.Arch)
			for i, name := range []config.AgentID{openAgent, allowAgent, askAgent, noneAgent, observeAgent} {
				s.move(t, name, uint32(2101+i), program)
			}
			t.Run("N14Policies", s.policies)
			t.Run("N14OtherRoom", s.otherRoom)
			t.Run("N02Addresses", func(t *testing.T) { s.try(t, allowAgent, engine.Command{}, addressAttempts()) })
			t.Run("N03Names", s.leaks)
			t.Run("N03Tunnel", s.tunnel)
			t.Run("N07ServerNames", func(t *testing.T) { s.try(t, allowAgent, engine.Command{}, serverNameAttempts()) })
			t.Run("N10Forms", func(t *testing.T) { s.try(t, allowAgent, engine.Command{}, formAttempts()) })
			t.Run("N13Frames", s.frames)
			t.Run("Plugins", s.plugins)
			t.Run("Rebinding", s.rebinding)
			t.Run("Forgotten", s.forgotten)
			t.Run("Revoked", s.revoked)
			t.Run("Records", s.records)
			t.Run("Clients", func(t *testing.T) {
				if p.Manifest.Distribution == "alpine" && lab.AlpineRoot(t, string(p.Manifest.Arch)) == "" {
					t.Skip("the stand-in has too few programs")
				}
				s.clients(t, p.Manifest.Distribution)
			})
			h.shutdown(t)
		})
	}
}

// The agents, one of each mode.
const (
	openAgent    config.AgentID = "agent-alice"
	allowAgent   config.AgentID = "agent-bob"
	askAgent     config.AgentID = "agent-carol"
	noneAgent    config.AgentID = "agent-dave"
	observeAgent config.AgentID = "agent-erin"
)

// Addresses of the test's internet. Nobody may reach the forbidden ones.
const (
	site      = "93.184.215.20"
	ports     = "93.184.215.30"
	lone      = "93.184.215.40" // has one name
	untold    = "93.184.215.99" // has no name
	company   = "10.20.1.5"
	private   = "192.168.1.10"    // forbidden
	cloud     = "169.254.169.254" // forbidden
	observed  = "192.168.9.9"
	container = "169.254.170.2" // another of a cloud's credentials
)

// world is an internet of the test, and this computer's loopback.
type world struct {
	outside
	loopback string // the port of a server on this computer
	extra    sync.Map

	ahead atomic.Int64 // of the clock, in nanoseconds

	mu     sync.Mutex
	asked  []string
	flows  []network.Flow
	lookup []string // names that left the gateway
}

func newWorld(t *testing.T) *world {
	w := &world{outside: outside{networktest.NewInternet()}}
	for name, addrs := range map[string][]string{
		"a.example": {site}, "b.example": {site}, "yes.example": {site}, "no.example": {site}, "ports.example": {ports}, "alone.example": {lone}, "api.example": {site},
		"x.wild.example": {site}, "bad.wild.example": {site}, "wild.example": {site}, "expired.example": {site}, "lasting.example": {site}, "plugin.example": {site},
		"github.com": {site}, "denied.example": {site}, "everywhere.example": {site}, "rebind.example": {site}, "revoked.example": {site}, "refused.example": {site},
		"mirror.example": {company}, "public.example": {company}, "private.example": {private}, "mapped.example": {"::ffff:" + private}, "nat64.example": {"64:ff9b::c0a8:10a"},
		"both.example": {private, site}, "cloud.example": {cloud}, "loop.example": {"127.0.0.1"}, "yes-private.example": {private}, "container.example": {container},
	} {
		w.name(name, addrs...)
	}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.RawQuery; to != "" {
			http.Redirect(rw, r, to, http.StatusFound)
			return
		}
		fmt.Fprintf(rw, "page of %s%s by %s", r.Host, r.URL.Path, r.Method)
	}))
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetHTTP1(true)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(web.Close)
	secured := httptest.NewTLSServer(nil)
	secured.Close() // only its certificate is needed
	greet := func(c net.Conn) { fmt.Fprintln(c, "hello") }
	for _, addr := range []string{site, ports, lone, untold, company, private, cloud, observed, container, "127.0.0.1"} {
		a := netip.MustParseAddr(addr)
		w.Place(netip.AddrPortFrom(a, 80), web.Listener.Addr())
		for _, port := range []uint16{22, 9000, 9001, 9002} {
			w.Serve(t, netip.AddrPortFrom(a, port), greet)
		}
		w.Serve(t, netip.AddrPortFrom(a, 443), func(c net.Conn) {
			s := tls.Server(c, &tls.Config{Certificates: secured.TLS.Certificates})
			if s.Handshake() == nil {
				fmt.Fprintln(s, "hello", s.ConnectionState().ServerName)
			}
		})
		for _, port := range []uint16{443, 4000, 4001} {
			w.ServeUDP(t, netip.AddrPortFrom(a, port), func(b []byte) []byte { return b })
		}
		w.ServeEcho(t, a)
	}
	w.Serve(t, netip.MustParseAddrPort(site+":9100"), func(c net.Conn) { // until the other end ends
		fmt.Fprintln(c, "hello")
		_, _ = io.Copy(io.Discard, c)
	})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			greet(c)
			c.Close()
		}
	}()
	_, w.loopback, _ = net.SplitHostPort(l.Addr().String())
	return w
}

func (w *world) name(name string, addrs ...string) {
	var list []netip.Addr
	for _, a := range addrs {
		list = append(list, netip.MustParseAddr(a))
	}
	w.Name(name, list...)
}

// LookupNetIP implements network.Dialer.
func (w *world) LookupNetIP(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	w.mu.Lock()
	w.lookup = append(w.lookup, name)
	w.mu.Unlock()
	return w.outside.LookupNetIP(ctx, name)
}

// lookups counts the names below a domain, and itself, that left the gateway.
func (w *world) lookups(domain string) (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.lookup {
		if name == domain || strings.HasSuffix(name, "."+domain) {
			count++
		}
	}
	return count
}

func (w *world) options() *network.Options {
	shared := []string{"deny everywhere.example"}
	policies := map[network.Subject]policy.Policy{
		{}:                    rules(config.NetworkOpen, shared),
		{Agent: openAgent}:    rules(config.NetworkOpen, shared, "deny denied.example"),
		{Agent: askAgent}:     rules(config.NetworkAsk, shared),
		{Agent: noneAgent}:    rules(config.NetworkClosed, shared, "allow a.example"),
		{Agent: observeAgent}: rules(config.NetworkAllow, shared),
		{Agent: allowAgent}: rules(config.NetworkAllow, shared,
			"allow a.example", "allow alone.example", "allow *.wild.example", "deny bad.wild.example", "allow tcp ports.example:9000-9001", "allow udp ports.example:4000",
			"allow 10.20.0.0/16:9000", "allow @github", "allow api.example method=GET|HEAD path=/v1/*", "allow expired.example until=2020-01-01",
			"allow lasting.example until=2999-01-01", "allow public.example public", "allow mirror.example", "allow cloud.example", "allow loop.example",
			"allow localhost:"+w.loopback),
	}
	observing := policies[network.Subject{Agent: observeAgent}]
	observing.Observe = true
	policies[network.Subject{Agent: observeAgent}] = observing
	for agent, hosts := range map[config.AgentID][]string{openAgent: {"plugin.example", "private.example"}, allowAgent: {"a.example", "b.example"}} {
		p := policies[network.Subject{Agent: agent}]
		p.Hosts = hosts
		policies[network.Subject{Agent: agent, Plugin: "rss"}] = p
	}
	return &network.Options{
		Dialer: w,
		Policy: func(s network.Subject) policy.Policy {
			p := policies[s]
			if r, ok := w.extra.Load(s.Agent); ok {
				p.Rules = append([]config.NetworkRule{}, append(p.Rules, r.(config.NetworkRule))...)
			}
			return p
		},
		Ask: func(_ context.Context, s network.Subject, t policy.Target) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, string(s.Agent)+" "+t.String())
			return strings.HasPrefix(t.Name, "yes")
		},
		Record: func(f network.Flow) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.flows = append(w.flows, f)
		},
		Now:       func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
		AgentName: func(a config.AgentID) string { return strings.TrimPrefix(string(a), "agent-") },
	}
}

// rules returns a policy whose first rules are those of all agents.
func rules(mode config.NetworkMode, shared []string, own ...string) policy.Policy {
	p := policy.Policy{Mode: mode, Shared: len(shared)}
	for _, text := range append(shared[:len(shared):len(shared)], own...) {
		p.Rules = append(p.Rules, mustRule(text))
	}
	return p
}

func mustRule(text string) config.NetworkRule {
	r, err := config.ParseNetworkRule(text)
	if err != nil {
		panic(err) // the test's own text
	}
	return r
}

type gatewaySuite struct {
	home    *home
	world   *world
	tenants map[config.AgentID]*tenant
}

// tenant is an agent with a room.
type tenant struct {
	engine.Room
	address netip.Addr
}

// move makes an agent's room.
func (s *gatewaySuite) move(t *testing.T, agent config.AgentID, uid uint32, program []byte) {
	t.Helper()
	name, user := strings.TrimPrefix(string(agent), "agent-"), config.LinuxUser(agent)
	folder := filepath.Join(s.home.workspace, "agents", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "intruder"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	s.home.own("agents/"+name, uid)
	room := engine.RoomConfig{User: user, UID: uid, Home: guest.HomesDir + "/" + name, Hostname: name, Address: s.home.join(t, user)}
	if _, err := s.home.guest.Client.EnsureRoom(t.Context(), room, s.home.mint(user, uid)); err != nil {
		t.Fatal(err)
	}
	s.tenants[agent] = &tenant{s.home.guest.Room(user), room.Address}
}

// attempt is what a program tries, and a part of what it must print.
type attempt struct{ try, want string }

// try runs attempts by one program in a room.
func (s *gatewaySuite) try(t *testing.T, agent config.AgentID, c engine.Command, attempts []attempt) {
	t.Helper()
	said := s.probe(t, agent, c, attempts)
	for i, a := range attempts {
		if i >= len(said) {
			t.Errorf("%s: no answer to %q and what follows", agent, a.try)
			return
		}
		want, exact := strings.CutSuffix(a.want, "$")
		if !strings.Contains(said[i], want) || exact && said[i] != want {
			t.Errorf("%s: %q: got %q, want %q", agent, a.try, said[i], a.want)
		}
	}
}

func (s *gatewaySuite) probe(t *testing.T, agent config.AgentID, c engine.Command, attempts []attempt) []string {
	t.Helper()
	var in, out bytes.Buffer
	for _, a := range attempts {
		fmt.Fprintln(&in, a.try)
	}
	c.Args, c.Stdin, c.Stdout, c.Stderr, c.Timeout = []string{"./intruder", "probe"}, &in, &out, &out, probePatience
	exit, err := engine.Run(t.Context(), s.tenants[agent].Room, c)
	if err != nil || exit.Status() != 0 {
		t.Errorf("%s: %+v %v", agent, exit, err)
	}
	var said []string
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		said = append(said, lines.Text())
	}
	return said
}

// probePatience bounds a list of attempts on a busy computer.
const probePatience = 5 * time.Minute
