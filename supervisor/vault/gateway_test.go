package vault_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/subnet"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/secrets"
)

// web is a gateway with the rig's vault, a room of alice, and an API server that answers for all names
// and records what it gets.
type web struct {
	*rig
	also   string     // a name that is resolved after each
	at     netip.Addr // instead of what names are resolved to
	client *http.Client

	mu    sync.Mutex
	got   []string // requests as they arrived
	flows []network.Flow
}

const patience = time.Minute

func newWeb(t *testing.T, r *rig, http2 bool, rules ...string) *web {
	t.Helper()
	w := &web{rig: r}
	server := httptest.NewUnstartedServer(http.HandlerFunc(w.answer))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	at := netip.MustParseAddr("93.184.216.34")
	internet := networktest.NewInternet()
	for _, host := range []string{"api.example.com", "bound.example.com", "free.example.com"} {
		internet.Name(host, at) // httptest's certificate has *.example.com
	}
	internet.Serve(t, netip.AddrPortFrom(at, 443), func(c net.Conn) {
		up, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(up, c); _ = up.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(c, up)
	})
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	allowed := policy.Policy{Mode: config.NetworkOpen}
	for _, text := range rules {
		rule, err := config.ParseNetworkRule(text)
		if err != nil {
			t.Fatal(err)
		}
		allowed.Rules = append(allowed.Rules, rule)
	}
	gateway, wire, err := network.Open(network.Options{
		Dialer: internet,
		Policy: func(network.Subject) policy.Policy { return allowed },
		Record: func(f network.Flow) { w.mu.Lock(); defer w.mu.Unlock(); w.flows = append(w.flows, f) },
		Opens: func(s network.Subject, host string, o *intercept.Options) bool {
			if o != nil {
				o.Roots = roots
			}
			return r.Opens(s, "alice", host, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gateway.Close() })
	guest := networktest.NewGuest(t, wire)
	room, err := gateway.Join(network.Subject{Agent: alice})
	if err != nil {
		t.Fatal(err)
	}
	guest.Add(t, room)

	trusted := roots.Clone() // the room trusts the internet's certificates and the gateway's
	if !trusted.AppendCertsFromPEM([]byte(r.Trust().Certificate)) {
		t.Fatal("the gateway has no certificate")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: http2, DisableCompression: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(address)
			c, err := guest.DialUDP(room, netip.AddrPortFrom(subnet.Gateway(), 53))
			if err != nil {
				return nil, err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			names, a := &dns.Conn{Conn: c}, w.at
			for _, name := range []string{host, w.also} {
				if name == "" || w.at.IsValid() {
					continue
				}
				if err := names.WriteMsg(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)); err != nil {
					return nil, err
				}
				m, err := names.ReadMsg()
				if err != nil || len(m.Answer) == 0 {
					return nil, fmt.Errorf("%s: %v, %v", name, m, err)
				}
				a, _ = netip.AddrFromSlice(m.Answer[0].(*dns.A).A.To4())
			}
			return guest.Dial(ctx, room, netip.AddrPortFrom(a, 443))
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport, Timeout: patience}
	return w
}

// answer records a request, and echoes it in the header and the body.
func (w *web) answer(to http.ResponseWriter, r *http.Request) {
	text, _ := httputil.DumpRequest(r, true)
	w.mu.Lock()
	w.got = append(w.got, string(text))
	w.mu.Unlock()
	to.Header().Set("X-Echo", r.Header.Get("Authorization"))
	fmt.Fprintf(to, "%s got %s", r.Host, text)
}

// arrived returns the requests that arrived since the last call.
func (w *web) arrived() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.got, "\n")
	w.got = nil
	return text
}

// send sends a request from alice's room, and returns the status and all that comes back.
func (w *web) send(method, url string, body string, headers ...string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, fmt.Sprint(answer.Header, string(text))
}

// S02: the value arrives at the bound host, in the bound position, and nowhere else. What comes back,
// flows and the audit do not have it.
func TestS02ValueThroughTheGateway(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", http2), func(t *testing.T) {
			r := newRig(t, nil)
			token := r.bind(key("", "TOKEN"), canary+"-token", secrets.Binding{Hosts: []string{"api.example.com"}})
			query := r.bind(key("", "QUERY"), canary+"-query", secrets.Binding{Hosts: []string{"api.example.com"}, In: secrets.InQuery, Key: "key"})
			login := r.bind(key("", "LOGIN"), canary+"-login", secrets.Binding{Hosts: []string{"bound.example.com"}, In: secrets.InBasic})
			w := newWeb(t, r, http2)

			status, text := w.send("GET", "https://api.example.com/?key="+query, "", "Authorization", "Bearer "+token)
			if got := w.arrived(); status != 200 || !strings.Contains(got, "Authorization: Bearer "+canary+"-token\r\n") || !strings.Contains(got, "/?key="+canary+"-query ") {
				t.Errorf("%d, the server got %q", status, got)
			}
			if strings.Contains(text, canary) || strings.Count(text, "[REDACTED:TOKEN]") != 2 || strings.Count(text, "[REDACTED:QUERY]") != 1 {
				t.Errorf("the room got %q", text)
			}
			status, _ = w.send("GET", "https://bound.example.com/", "", "Authorization", basic("me", login))
			if got := w.arrived(); status != 200 || !strings.Contains(got, basic("me", canary+"-login")) {
				t.Errorf("%d, the server got %q", status, got)
			}

			// Elsewhere in the heads of opened requests it is refused.
			for _, to := range [][]string{
				{"https://bound.example.com/", "Authorization", "Bearer " + token},
				{"https://bound.example.com/", "Authorization", basic("me", token)},
				{"https://api.example.com/", "Authorization", basic("me", token)},
				{"https://api.example.com/", "Authorization", "Bearer " + login},
				{"https://api.example.com/", "X-Other", token},
				{"https://api.example.com/", "Cookie", "a=" + token},
				{"https://api.example.com/" + token, "X-Other", "none"},
				{"https://api.example.com/?other=" + token, "X-Other", "none"},
				{"https://api.example.com/?" + query + "=1", "X-Other", "none"},
				{"https://bound.example.com/?key=" + query, "X-Other", "none"},
			} {
				status, text := w.send("GET", to[0], "", to[1:]...)
				if got := w.arrived(); status != http.StatusForbidden || got != "" || !strings.Contains(text, "osaurus-sandbox secret set alice") || strings.Contains(text, canary) {
					t.Errorf("%q: %d, %q; the server got %q", to, status, text, got)
				}
			}

			// In bodies, and to hosts whose connections are not opened, it stays what it is.
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			if _, err := io.WriteString(z, token); err != nil || z.Close() != nil {
				t.Fatal(err)
			}
			for _, body := range []string{token, packed.String()} {
				if status, _ := w.send("POST", "https://api.example.com/", body, "Content-Encoding", "x"); status != 200 {
					t.Errorf("a body: %d", status)
				}
				if got := w.arrived(); !strings.Contains(got, body) || strings.Contains(got, canary) {
					t.Errorf("a body arrived as %q", got)
				}
			}
			status, text = w.send("GET", "https://free.example.com/?key="+query, "", "Authorization", "Bearer "+token)
			if got := w.arrived(); status != 200 || !strings.Contains(got, token) || strings.Contains(got+text, canary) || !strings.Contains(text, token) {
				t.Errorf("%d, %q; the server got %q", status, text, got)
			}

			// A new value is sent at once, also on a connection that is open, and both are redacted.
			w.set(key("", "TOKEN"), canary+"-rotated")
			_, text = w.send("GET", "https://api.example.com/", canary+"-token", "Authorization", "Bearer "+token)
			if got := w.arrived(); !strings.Contains(got, "Bearer "+canary+"-rotated\r\n") || strings.Contains(text, canary) {
				t.Errorf("%q; the server got %q", text, got)
			}
			// A deleted one is not sent.
			if err := w.Delete(t.Context(), key("", "TOKEN")); err != nil {
				t.Fatal(err)
			}
			if _, text = w.send("GET", "https://api.example.com/", "", "Authorization", "Bearer "+token); strings.Contains(w.arrived()+text, canary) {
				t.Errorf("a deleted secret was sent: %q", text)
			}

			w.client.CloseIdleConnections()
			timetest.Eventually(t, "flows are recorded", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				if strings.Contains(fmt.Sprintf("%+v", w.flows), canary) {
					t.Fatalf("a value is in the flows: %+v", w.flows)
				}
				return len(w.flows) >= 3
			})
			if text := w.entries(); strings.Contains(text, canary) || !strings.Contains(text, "alice gateway secret.send TOKEN to api.example.com : ok\n") {
				t.Errorf("the audit: %s", text)
			}
		})
	}
}

func basic(user, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// A rule with a method opens TLS for its host alone, also at the first connection of a home that has no
// bound secret.
func TestRulesOpenTLS(t *testing.T) {
	r := newRig(t, nil)
	r.Prepare(t.Context(), true)
	w := newWeb(t, r, true, "deny api.example.com method=POST")
	for _, tc := range []struct {
		method, host, issuer string
		status               int
	}{
		{"GET", "api.example.com", "Osaurus Sandbox", 200},
		{"POST", "api.example.com", "Osaurus Sandbox", 403},
		{"POST", "free.example.com", "Acme Co", 200},
	} {
		request, err := http.NewRequestWithContext(t.Context(), tc.method, "https://"+tc.host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := w.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if by := answer.TLS.PeerCertificates[0].Issuer.Organization; answer.StatusCode != tc.status || by[0] != tc.issuer || (w.arrived() != "") != (tc.status == 200) {
			t.Errorf("%s to %s: %s, the certificate is from %q", tc.method, tc.host, answer.Status, by)
		}
	}
}

// N17: where our credential is required, the agent cannot use somebody else's account.
func TestN17ForeignCredentialIsRefused(t *testing.T) {
	r := newRig(t, nil)
	token := r.bind(key("", "TOKEN"), canary, secrets.Binding{Hosts: []string{"api.example.com"}, Require: true})
	free := r.bind(key("", "FREE"), canary+"-free", secrets.Binding{Hosts: []string{"bound.example.com"}})
	w := newWeb(t, r, true)
	for _, headers := range [][]string{
		{"Authorization", "Bearer sk-attacker"},
		{"Authorization", basic("attacker", "password")},
		{"Authorization", "Bearer " + free},
		{"Authorization", "Bearer " + token, "X-Api-Key", "sk-attacker"},
		{"X-Other", "no credential"},
	} {
		status, text := w.send("POST", "https://api.example.com/v1/files", "stolen", headers...)
		if got := w.arrived(); status != http.StatusForbidden || got != "" || !strings.Contains(text, "TOKEN") {
			t.Errorf("%q: %d, %q; the server got %q", headers, status, text, got)
		}
	}
	status, _ := w.send("POST", "https://api.example.com/v1/files", "ours", "Authorization", "Bearer "+token, "Cookie", "session=attacker")
	if got := w.arrived(); status != 200 || !strings.Contains(got, "Bearer "+canary) || strings.Contains(got, "attacker") {
		t.Errorf("%d, the server got %q", status, got)
	}
	status, _ = w.send("GET", "https://bound.example.com/", "", "Authorization", "Bearer sk-mine") // not required there
	if got := w.arrived(); status != 200 || !strings.Contains(got, "sk-mine") {
		t.Errorf("%d, the server got %q", status, got)
	}
}

// Names share addresses. What counts is the name for which a program asks, whichever it was told last,
// and a bound host is not reached by its address alone.
func TestBoundHostAtASharedAddress(t *testing.T) {
	r := newRig(t, nil)
	token := r.bind(key("", "TOKEN"), canary, secrets.Binding{Hosts: []string{"api.example.com"}, Require: true})
	for _, tc := range []struct{ host, also, want string }{
		{"api.example.com", "free.example.com", "Bearer " + canary},
		{"free.example.com", "api.example.com", "Bearer " + token},
	} {
		w := newWeb(t, r, false)
		w.also = tc.also
		status, text := w.send("GET", "https://"+tc.host+"/", "", "Authorization", "Bearer "+token)
		if got := w.arrived(); status != 200 || !strings.Contains(got, "Authorization: "+tc.want+"\r\n") {
			t.Errorf("%s: %d, %q; the server got %q", tc.host, status, text, got)
		}
	}
	w := newWeb(t, r, false)
	w.at = netip.MustParseAddr("93.184.216.34")
	for host, refused := range map[string]bool{"api.example.com": true, "free.example.com": false} {
		answer, err := w.client.Get("https://" + host + "/")
		if err == nil {
			_ = answer.Body.Close()
		}
		if got := w.arrived(); (err != nil) != refused || (got == "") != refused {
			t.Errorf("%s by address: %v; the server got %q", host, err, got)
		}
	}
}
