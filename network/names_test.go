package network

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
)

// Addresses that alice is told for names that are not resolved.
var (
	heldAsked = subnet.Held().Addr().Next()
	heldBad   = heldAsked.Next()
)

// byName is a lab in which names decide: good.example and also.example are allowed, and
// asked.example is asked about.
func byName(t *testing.T, changes ...func(*Gateway)) *lab {
	l := newLab(t, changes...)
	for _, name := range []string{"bad.example", "also.example", "good.example"} {
		l.names.Remember(l.alice, name, []netip.Addr{server}, time.Minute)
	}
	if asked, bad := l.names.Hold(l.alice, "asked.example"), l.names.Hold(l.alice, "bad.example"); asked != heldAsked || bad != heldBad {
		t.Fatalf("held addresses are %v and %v", asked, bad)
	}
	l.set("alice", testRules{byName: true, decide: func(t policy.Target) policy.Decision {
		switch {
		case t.Addr.IsValid() && t.Addr.IsPrivate():
			return denied
		case t.Name == "good.example" || t.Name == "also.example":
			return allowed
		case t.Name == "asked.example":
			return asked
		}
		return policy.Decision{Action: policy.Deny, Reason: "no rule allows it", Advice: "osaurus-sandbox network allow NAME bad.example"}
	}})
	return l
}

func serveHTTP(c net.Conn) {
	l := &oneListener{conn: c, done: make(chan struct{})}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page of "+r.Host) })}
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(l.done)
		}
	}
	s.Serve(l)
}

type oneListener struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, io.EOF
}
func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }

// get asks for a page, and returns the status line's text and the body.
func get(c net.Conn, host string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.Status + "\n" + string(body), err
}

func TestHostMustAgreeWithTheName(t *testing.T) {
	l := byName(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 80), serveHTTP)
	for _, tt := range []struct{ host, want string }{
		{"good.example", "page of good.example"},
		{"GOOD.example:80", "page of good.example:80"},
		{"also.example", "page of also.example"},
		{"bad.example", "no rule allows it"},
		{"other.example", `403 The sandbox refuses good.example: the program asks for "other.example"`},
		{"203.0.113.5", "403 "},
		{"good.example\r\nHost: bad.example", "403 The sandbox refuses good.example: the first message is not valid"},
	} {
		t.Run(tt.host, func(t *testing.T) {
			c, err := l.dial(l.alice, server, 80)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got, err := get(c, tt.host)
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			c.Close()
			f := l.flow()
			if refused := f.Decision.Action == policy.Deny; refused != strings.Contains(got, "403") || refused && f.Decision.Reason == "" {
				t.Errorf("recorded %+v", f)
			}
		})
	}
}

func TestEachRequestMustAgreeWithTheName(t *testing.T) {
	l := byName(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 80), serveHTTP)
	c, err := l.dial(l.alice, server, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct{ host, want string }{
		{"good.example", "page of good.example"}, {"good.example", "page of good.example"}, {"bad.example", "403"},
	} {
		if got, err := get(c, tt.host); err != nil && tt.want != "403" || strings.Contains(got, "page of") != (tt.want != "403") {
			t.Errorf("%s: got %q, %v, want %q", tt.host, got, err, tt.want)
		}
	}
}

func TestRulesForRequestsAreEnforced(t *testing.T) {
	l := byName(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 80), serveHTTP)
	l.set("alice", testRules{byName: true, opened: true, decide: func(t policy.Target) policy.Decision {
		if t.Name == "good.example" && (t.Method == "" || t.Method == "GET" && t.Path == "/") {
			return allowed
		}
		return policy.Decision{Action: policy.Deny, Reason: "only GET"}
	}})
	for _, tt := range []struct{ request, want, refused string }{
		{"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", "200 OK", ""},
		{"POST /?q=1 HTTP/1.1\r\nHost: good.example\r\nContent-Length: 0\r\n\r\n", "403", "POST /"},
		{"GET /other HTTP/1.1\r\nHost: good.example\r\n\r\n", "403", "GET /other"},
		{"GET / HTTP/1.1\r\nHost: bad.example\r\n\r\n", "403", ""},
		{"SSH-2.0-OpenSSH\r\n", "", ""},
	} {
		c, err := l.dial(l.alice, server, 80)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, tt.request); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		switch {
		case tt.want == "" && err == nil || tt.want != "" && err != nil:
			t.Errorf("%q: got %v, %v", tt.request, answer, err)
		case err == nil && !strings.HasPrefix(answer.Status, tt.want):
			t.Errorf("%q: got %q, want %q", tt.request, answer.Status, tt.want)
		}
		c.Close()
		if f := l.flow(); tt.refused != "" { // the request, then the connection
			if f.Decision.Action != policy.Deny || f.Decision.Reason != "only GET" || f.Target.Method+" "+f.Target.Path != tt.refused || f.Target.Name != "good.example" {
				t.Errorf("%q: recorded %+v", tt.request, f)
			}
			l.flow()
		}
	}
}

func TestN07ServerNameMustAgree(t *testing.T) {
	l := byName(t)
	var hellos atomic.Int64
	l.internet.Serve(t, netip.AddrPortFrom(server, 443), func(c net.Conn) {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			hellos.Add(1)
		}
	})
	for _, tt := range []struct {
		name    string
		arrives bool
	}{{"good.example", true}, {"also.example", true}, {"other.example", false}, {"bad.example", false}, {"", false}} {
		t.Run(tt.name, func(t *testing.T) {
			before := hellos.Load()
			c, err := l.dial(l.alice, server, 443)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			err = tls.Client(c, &tls.Config{ServerName: tt.name, InsecureSkipVerify: true}).Handshake()
			if err == nil {
				t.Fatal("the handshake succeeded")
			}
			if alert := strings.Contains(err.Error(), "access denied"); alert == tt.arrives {
				t.Errorf("got %v", err)
			}
			if arrived := hellos.Load() > before; arrived != tt.arrives {
				t.Errorf("the hello arrived: %v, want %v", arrived, tt.arrives)
			}
			c.Close()
			l.flow()
		})
	}
}

// openLab is a lab in the mode open with rules that deny names and read requests. Alice was told good.example at
// told, and nothing at literal.
func openLab(t *testing.T, observe bool) (l *lab, told, literal netip.Addr) {
	p := policy.Policy{Mode: config.NetworkOpen, Observe: observe}
	for _, text := range []string{"deny bad.example", "deny read.example path=/admin/*"} {
		r, err := config.ParseNetworkRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Rules = append(p.Rules, r)
	}
	l = newLab(t, func(g *Gateway) { g.policy = func(Subject) rules { return p } })
	told, literal = netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("9.9.9.9")
	l.names.Remember(l.alice, "good.example", []netip.Addr{told}, time.Minute)
	return l, told, literal
}

// open connects.
func (l *lab) open(to netip.Addr, port uint16) net.Conn {
	l.t.Helper()
	c, err := l.dial(l.alice, to, port)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(patience))
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// In the mode open, a rule that denies a name also counts for addresses that the room was not told
// for it, as far as the program says the name.
func TestDeniedNamesAreClosedInOpenMode(t *testing.T) {
	l, told, literal := openLab(t, false)
	for _, addr := range []netip.Addr{told, literal} {
		l.internet.Serve(t, netip.AddrPortFrom(addr, 80), serveHTTP)
		for host, want := range map[string]string{
			"good.example": "page of good.example", "other.example": "page of other.example", "9.9.9.9": "page of 9.9.9.9",
			"bad.example":            `the rule "deny bad.example" denies it`,
			"x\r\nno colon":          "the first message is not valid",
			"read.example":           "403", // the gateway opens what it has told the room for this name
			"x\r\nHost: bad.example": "the first message is not valid",
		} {
			c := l.open(addr, 80)
			got, err := get(c, host)
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%s at %s: got %q, %v, want %q", host, addr, got, err, want)
			}
			c.Close()
			if f := l.flow(); host == "bad.example" && (f.Target.Name != host || f.Decision.Action != policy.Deny) {
				t.Errorf("recorded %+v", f)
			}
		}
		l.internet.Serve(t, netip.AddrPortFrom(addr, 443), func(c net.Conn) {
			if n, _ := c.Read(make([]byte, 1)); n > 0 {
				t.Error("the hello arrived")
			}
		})
		c := l.open(addr, 443)
		if err := tls.Client(c, &tls.Config{ServerName: "bad.example", InsecureSkipVerify: true}).Handshake(); err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("TLS to %s: %v", addr, err)
		}
		c.Close()
		l.flow()
	}
}

// Such rules do not harm programs that speak something else.
func TestOtherProtocolsPassInOpenMode(t *testing.T) {
	l, _, literal := openLab(t, false)
	l.internet.Serve(t, netip.AddrPortFrom(literal, 9000), networktest.Echo)
	for _, text := range []string{"0032git-upload-pack /p\x00host=h\x00", "word", "\x00\x01"} {
		c, got := l.open(literal, 9000), make([]byte, len(text))
		_, err := io.WriteString(c, text)
		if err == nil {
			_, err = io.ReadFull(c, got)
		}
		if err != nil || string(got) != text {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
		c.Close()
		l.flow()
	}
	c := l.open(literal, 9000)
	if got, err := networktest.Exchange(c, "hello"); err != nil || got != "hello" {
		t.Errorf("with an end: got %q, %v", got, err)
	}
	c.Close()
	l.flow()
}

func TestDeniedNamesAreObservedInOpenMode(t *testing.T) {
	l, _, literal := openLab(t, true)
	l.internet.Serve(t, netip.AddrPortFrom(literal, 80), serveHTTP)
	c := l.open(literal, 80)
	if got, err := get(c, "bad.example"); err != nil || !strings.Contains(got, "page of bad.example") {
		t.Errorf("got %q, %v", got, err)
	}
	c.Close()
	if f := l.flow(); !f.Decision.Observed || f.Target.Name != "bad.example" {
		t.Errorf("recorded %+v", f)
	}
}

func TestServersThatSpeakFirstAreHeard(t *testing.T) {
	l := byName(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 25), func(c net.Conn) {
		io.WriteString(c, "220 hello\r\n")
		networktest.Echo(c)
	})
	c, err := l.dial(l.alice, server, 25)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	greeting := make([]byte, 11)
	if _, err := io.ReadFull(c, greeting); err != nil || string(greeting) != "220 hello\r\n" {
		t.Fatalf("got %q, %v", greeting, err)
	}
	if got, err := networktest.Exchange(c, "\x00\x01binary"); err != nil || got != "\x00\x01binary" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestN02AddressesWithoutNames(t *testing.T) {
	l := byName(t)
	literal := netip.MustParseAddr("198.51.100.1")
	everything, prefix := allowed, allowed
	everything.Rule = &config.NetworkRule{Host: "*"}
	prefix.Rule = &config.NetworkRule{Prefix: netip.MustParsePrefix("198.51.100.0/24")}
	l.internet.Serve(t, netip.AddrPortFrom(literal, 22), networktest.Echo)
	for _, tt := range []struct {
		decision policy.Decision
		reached  bool
	}{{allowed, false}, {everything, true}, {prefix, true}} {
		l.set("alice", testRules{byName: true, decide: func(policy.Target) policy.Decision { return tt.decision }})
		c, err := l.dial(l.alice, literal, 22)
		if (err == nil) != tt.reached {
			t.Errorf("with rule %+v: %v", tt.decision.Rule, err)
		}
		if err == nil {
			c.Close()
		}
		l.flow()
	}
}

func TestHeldConnectionsWaitForTheAnswer(t *testing.T) {
	answers := make(chan bool, 8)
	var targets sync.Map
	l := byName(t, func(g *Gateway) {
		g.options.Ask = func(ctx context.Context, s Subject, t policy.Target) bool {
			targets.Store(t, s)
			select {
			case yes := <-answers:
				return yes
			case <-ctx.Done():
				return false
			}
		}
	})
	l.internet.Name("asked.example", private, server)
	l.internet.Serve(t, netip.AddrPortFrom(server, 22), networktest.Echo)
	l.internet.Serve(t, netip.AddrPortFrom(private, 22), networktest.Echo)
	answers <- true
	c, err := l.dial(l.alice, heldAsked, 22)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := networktest.Exchange(c, "SSH-2.0-x\r\n"); err != nil || got != "SSH-2.0-x\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
	c.Close()
	if f := l.flow(); f.Target.Name != "asked.example" || f.Target.Addr != server || f.Decision.Action != policy.Allow {
		t.Errorf("recorded %+v", f)
	}
	if dials := l.internet.Dials(); len(dials) != 1 || dials[0].To.Addr() != server {
		t.Errorf("dialed %v, want the public address alone", dials)
	}
	if _, ok := targets.Load(policy.Target{Protocol: policy.TCP, Name: "asked.example", Port: 22}); !ok {
		t.Error("the person was asked about something else")
	}

	answers <- false
	if _, err := l.dial(l.alice, heldAsked, 22); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("after a no: %v", err)
	}
}

// An answer that is a rule ends other connections, but explains itself to the one that waited.
func TestAnswerThatIsARule(t *testing.T) {
	made := make(chan *lab, 1)
	l := byName(t, func(g *Gateway) {
		g.options.Ask = func(context.Context, Subject, policy.Target) bool {
			l := <-made
			l.set("alice", testRules{byName: true, decide: func(policy.Target) policy.Decision { return denied }})
			l.Recheck("alice")
			return false
		}
	})
	made <- l
	c, err := l.dial(l.alice, heldAsked, 80)
	if err != nil {
		t.Fatal(err)
	}
	if page, _ := networktest.Exchange(c, "GET / HTTP/1.1\r\nHost: asked.example\r\n\r\n"); !strings.Contains(page, denied.Reason) {
		t.Errorf("got %q", page)
	}
	c.Close()
	if f := l.flow(); f.Decision.Reason != denied.Reason || f.Error != "" {
		t.Errorf("recorded %+v", f)
	}
}

func TestNobodyAnswers(t *testing.T) {
	l := byName(t, func(g *Gateway) {
		g.askTimeout = 10 * time.Millisecond
		g.options.Ask = func(ctx context.Context, _ Subject, _ policy.Target) bool {
			<-ctx.Done()
			return true // too late
		}
	})
	if _, err := l.dial(l.alice, heldAsked, 22); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without an answer: %v", err)
	}
	if f := l.flow(); f.Decision.Action != policy.Deny {
		t.Errorf("recorded %+v", f)
	}
}

func TestRefusedNamesAreExplained(t *testing.T) {
	l := byName(t)
	c, err := l.dial(l.alice, heldBad, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := get(c, "bad.example")
	if err != nil || !strings.Contains(got, "403 The sandbox refuses bad.example: no rule allows it.") ||
		!strings.Contains(got, "osaurus-sandbox network allow") {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := l.dial(l.alice, heldBad, 22); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("ssh: %v", err)
	}
	if dials := l.internet.Dials(); len(dials) > 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestN03DNSOverTLSAndQUICIsRefused(t *testing.T) {
	l := byName(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 853), networktest.Echo)
	if _, err := l.dial(l.alice, server, 853); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	l.internet.ServeUDP(t, netip.AddrPortFrom(server, 853), func(b []byte) []byte { return b })
	c, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(server, 853)) // over QUIC
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte("x"))
	for range 2 {
		if f := l.flow(); f.Decision.Action != policy.Deny || !strings.Contains(f.Decision.Reason, "only name server") {
			t.Errorf("recorded %+v", f)
		}
	}
}

// Requests to a host that is opened are read, which QUIC prevents.
func TestN04QUICToOpenedHosts(t *testing.T) {
	l := byName(t)
	l.internet.ServeUDP(t, netip.AddrPortFrom(server, 443), func(b []byte) []byte { return b })
	l.mu.Lock()
	opened := l.rules["alice"]
	l.mu.Unlock()
	opened.opened = true
	l.set("alice", opened)
	c, err := l.guest.DialUDP(l.alice, netip.AddrPortFrom(server, 443))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte("x"))
	if f := l.flow(); f.Decision.Action != policy.Deny || !strings.Contains(f.Decision.Reason, "QUIC") || len(l.internet.Dials()) > 0 {
		t.Errorf("recorded %+v, dialed %v", f, l.internet.Dials())
	}
}

// A name may be allowed while its addresses are not, which is known only when it is dialed.
func TestRefusedAddressesOfANameAreExplained(t *testing.T) {
	l := byName(t)
	l.internet.Name("good.example", netip.MustParseAddr("10.1.2.3"))
	held := l.names.Hold(l.alice, "good.example")
	c, err := l.dial(l.alice, held, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := get(c, "good.example"); err != nil || !strings.Contains(got, "403 The sandbox refuses good.example: "+denied.Reason) {
		t.Errorf("got %q, %v", got, err)
	}
	c.Close()
	if f := l.flow(); f.Decision.Action != policy.Deny || f.Decision.Reason != denied.Reason {
		t.Errorf("recorded %+v", f)
	}
	if _, err := l.dial(l.alice, held, 25); err == nil {
		t.Error("a client of another protocol is connected")
	}
	l.flow()
}

func TestOpenedConnectionsAreBounded(t *testing.T) {
	l := byName(t)
	l.internet.Serve(t, netip.AddrPortFrom(server, 80), networktest.Echo)
	rules := l.rules["alice"]
	rules.opened = true
	l.set("alice", rules)
	// Without settings, the server would end a connection after two seconds.
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for n := range maxOpened + 1 {
		c, err := l.dial(l.alice, server, 80)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, preface); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 9)); n < maxOpened != (err == nil) { // a frame's header
			t.Errorf("connection %d: %v", n, err)
		}
	}
	if f := l.flow(); f.Decision.Action != policy.Deny || !strings.Contains(f.Decision.Reason, "too many connections") {
		t.Errorf("recorded %+v", f)
	}
}
