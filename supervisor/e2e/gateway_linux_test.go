//go:build !vzstandin

package e2e_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/secrets/agefile"
	"osaurus-sandbox/vm/qemu"
)

// The test's internet. *.example.com is in the certificate of httptest.
const (
	apiHost   = "api.example.com"   // to which secrets are bound
	otherHost = "other.example.com" // to which none is
	site      = "93.184.215.20"
	untold    = "93.184.215.99" // has no name
	private   = "192.168.1.10"  // closed to all
	toolTime  = 90 * time.Second
)

// gatewayTest is a daemon with a guest behind a tapped wire and an internet of the test's own.
type gatewayTest struct {
	*control.Client
	server   *control.Server
	home     config.Home
	wire     *wire
	internet *networktest.Internet

	mu      sync.Mutex
	arrived []arrival
	said    view // all that the calls returned, and the daemon's log
}

// arrival is a request as a server got it.
type arrival struct {
	host, path, authorization string
	rest                      string // all but the Authorization header
}

// TestGatewayCases tries what the gateway has to withstand, with a real guest.
func TestGatewayCases(t *testing.T) {
	g := newGatewayTest(t)
	for name, settings := range map[string]map[string]string{
		"alice": {"autonomousExec.enabled": "true"},
		"bob":   {"network": "allow", "network.rules": `["allow ` + otherHost + `"]`},
		"dave":  {"network": "none"},
	} {
		if _, err := g.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: name, Settings: settings}); err != nil {
			t.Fatal(err)
		}
		g.exec(t, control.RunAs{Agent: name}, engine.Command{Args: []string{"true"}})
	}
	intruder(t, g.home.AgentHome("bob"), g.home.AgentHome("dave"), g.home.AgentHome("alice"))
	t.Run("S01 a bound secret never enters the VM", g.boundSecret)
	t.Run("N01 no packet of a room without a network", g.noPacket)
	t.Run("N15 rooms cannot rewire their network", g.rewire)
	t.Run("N15 a guest that is taken over", g.takenOver)
	t.Run("N18 the gateway dies", g.dies)
}

func newGatewayTest(t *testing.T) *gatewayTest {
	t.Setenv(agefile.PassphraseFileVariable, "")
	g := &gatewayTest{wire: &wire{Driver: &qemu.Driver{}, t: t}, internet: networktest.NewInternet()}
	api := httptest.NewUnstartedServer(http.HandlerFunc(g.answer))
	api.Config.ErrorLog = log.New(io.Discard, "", 0) // some programs do not trust it
	api.StartTLS()
	t.Cleanup(api.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots) // with which the gateway checks servers
	at := netip.MustParseAddr(site)
	g.internet.Name(apiHost, at)
	g.internet.Name(otherHost, at)
	g.internet.Place(netip.AddrPortFrom(at, 443), api.Listener.Addr())
	for _, a := range []string{site, untold, private} {
		g.internet.Serve(t, netip.AddrPortFrom(netip.MustParseAddr(a), 9000), func(c net.Conn) { fmt.Fprintln(c, "hello") })
		g.internet.ServeUDP(t, netip.AddrPortFrom(netip.MustParseAddr(a), 9000), func(b []byte) []byte { return b })
	}
	g.server, g.Client = serve(t, "outbound", daemon.Options{Driver: g.wire, Dialer: g.internet, Log: &g.said})
	g.home = g.server.Sandbox.Home()
	return g
}

// answer records a request and sends it back.
func (g *gatewayTest) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a := arrival{host: r.Host, path: r.URL.Path, authorization: r.Header.Get("Authorization")}
	r.Header.Del("Authorization")
	a.rest = fmt.Sprint(r.Method, r.URL, r.Header, string(body))
	g.mu.Lock()
	g.arrived = append(g.arrived, a)
	g.mu.Unlock()
	w.Header().Set("X-Got", a.authorization)
	if r.URL.Path == "/fails" {
		w.WriteHeader(http.StatusUnauthorized)
	}
	fmt.Fprintln(w, "got", a.authorization, a.rest)
}

func (g *gatewayTest) arrivals() []arrival {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { g.arrived = nil }()
	return g.arrived
}

// exec runs a command and returns its output and error.
func (g *gatewayTest) exec(t *testing.T, as control.RunAs, cmd engine.Command) string {
	t.Helper()
	var out view
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := g.Run(t.Context(), as, cmd)
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		t.Errorf("%s: %v", cmd.Args, err)
	}
	fmt.Fprintln(&g.said, out.String(), err)
	return strings.TrimSpace(out.String())
}

// script runs a shell script in an agent's room, or without an agent as root of the guest.
func (g *gatewayTest) script(t *testing.T, agent, text string) string {
	t.Helper()
	return g.exec(t, control.RunAs{Agent: agent}, engine.Command{Args: []string{"sh", "-c", text}})
}

// probe runs attempts of the intruder and returns what it says of each.
func (g *gatewayTest) probe(t *testing.T, agent string, root bool, attempts ...string) []string {
	t.Helper()
	said := strings.Split(g.trick(t, agent, root, strings.NewReader(strings.Join(attempts, "\n")+"\n"), "probe"), "\n")
	if len(said) != len(attempts) {
		t.Fatalf("%d attempts, and it said %q", len(attempts), said)
	}
	return said
}

// trick runs a trick of the intruder.
func (g *gatewayTest) trick(t *testing.T, agent string, root bool, in io.Reader, args ...string) string {
	t.Helper()
	who, err := g.server.Agents.Get(agent)
	if err != nil {
		t.Fatal(err)
	}
	return g.exec(t, control.RunAs{Agent: agent}, engine.Command{Args: append([]string{who.Home() + "/intruder"}, args...), Stdin: in, RoomRoot: root})
}

// intruder puts the program that attacks into folders.
func intruder(t *testing.T, folders ...string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(folders[0], "intruder"), "osaurus-sandbox/guest/guesttest/intruder")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	program, err := os.ReadFile(filepath.Join(folders[0], "intruder"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if err := os.WriteFile(filepath.Join(folder, "intruder"), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// view is a buffer for many goroutines.
type view struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (v *view) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.Write(b)
}

func (v *view) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.String()
}

// unguessable returns a text that is nowhere yet.
func unguessable(prefix string) string {
	b := make([]byte, 18)
	_, _ = rand.Read(b)
	return prefix + hex.EncodeToString(b)
}

func arguments(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
