package boot_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/network/networktest"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/vm"
)

// Programs in a room reach a host to which a secret is bound: they trust the gateway, send the
// placeholder, and the server gets the value.
func TestBoundSecretFromARoom(t *testing.T) {
	h := newHome(t, lab.Image(t, lab.DebianPack(t)), vm.OwnershipSubtree)

	var mu sync.Mutex
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Authorization"))
		fmt.Fprintln(w, "for", r.Header.Get("Authorization"))
	}))
	defer server.Close()
	internet, at := networktest.NewInternet(), netip.AddrPortFrom(greeterAt().Addr(), 443)
	internet.Name("api.example.com", at.Addr())
	internet.Serve(t, at, func(c net.Conn) {
		up, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(up, c); _ = up.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(c, up)
	})
	t.Setenv(agefile.PassphraseFileVariable, "")
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	bindings, err := vault.OpenBindings(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	v := vault.New(vault.Options{
		Home: h.folder, Which: func() config.SecretStore { return config.SecretsInFile }, Bindings: bindings, Audit: audit.New(db),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	defer v.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	h.network = boot.OpenNetwork()
	h.network.Dialer = internet
	h.network.Opens = func(s network.Subject, host string, o *intercept.Options) bool {
		if o != nil {
			o.Roots = roots
		}
		return v.Opens(s, "tester", host, o)
	}
	h.boot(t)

	room := engine.RoomConfig{User: "agent-dora", UID: 2401, Home: guest.HomesDir + "/dora", Hostname: "dora"}
	if room.Address, err = h.guest.Gateway().Join(network.Subject{Agent: tester}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(h.workspace, "agents", "dora"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.own("agents/dora", room.UID)
	ensure := func() {
		t.Helper()
		if e, err := h.guest.Client.EnsureRoom(t.Context(), room, h.mint(room.User, room.UID)); err != nil || len(e.Lacks) > 0 {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	run := func(root bool, script string) string {
		t.Helper()
		var out bytes.Buffer
		p, err := h.guest.Client.Room(room.User).Exec(t.Context(), engine.Command{Args: []string{"sh", "-c", script}, RoomRoot: root, Stdout: &out, Stderr: &out})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	ensure() // before a secret is bound
	if out := run(false, "env; ls /usr/local/share/ca-certificates"); strings.Contains(out, "SSL_CERT_FILE") || strings.Contains(out, "osaurus-sandbox.crt") {
		t.Errorf("without a bound secret: %s", out)
	}

	value, err := secrets.ParseValue("canary-4c11d0e2")
	if err != nil {
		t.Fatal(err)
	}
	to, err := secrets.Binding{Hosts: []string{"api.example.com"}}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	k := secrets.Key{Agent: tester, Name: "TOKEN"}
	if err := v.Bind(t.Context(), k, value, to); err != nil {
		t.Fatal(err)
	}
	to, _ = v.Binding(k)
	room.Trust = v.Trust()
	ensure() // the room runs already

	header := fmt.Sprintf("'Authorization: Bearer %s' https://api.example.com/", to.Placeholder)
	plain := "env -u SSL_CERT_FILE -u CURL_CA_BUNDLE -u GIT_SSL_CAINFO "
	ask := func(program, script string, root bool) {
		t.Helper()
		if run(false, "command -v "+program) == "" {
			t.Logf("the room has no %s", program)
			return
		}
		out := run(root, script)
		mu.Lock()
		arrived := strings.Join(got, "\n")
		got = nil
		mu.Unlock()
		if arrived != "Bearer canary-4c11d0e2" || !strings.Contains(out, "for Bearer [REDACTED:TOKEN]") {
			t.Errorf("%s: the server got %q, and it printed %q", script, arrived, out)
		}
	}
	ask("curl", "curl -sS -m 60 -H "+header, false)
	ask("curl", "curl -sS -m 60 -H "+header, true)
	ask("curl", plain+"curl -sS -m 60 -H "+header, false)
	ask("wget", plain+"wget -T 60 -t 1 -qO- --header "+header, false)
	ask("python3", fmt.Sprintf(`%s python3 -c 'import urllib.request as u; print(u.urlopen(u.Request("https://api.example.com/", headers={"Authorization": "Bearer %s"})).read().decode())'`, plain, to.Placeholder), false)
	ask("node", fmt.Sprintf(`node -e 'fetch("https://api.example.com/", {headers: {Authorization: "Bearer %s"}}).then(r => r.text()).then(console.log)'`, to.Placeholder), false)

	// The distribution can make its bundle again, and the certificate stays in it.
	if out := run(true, "update-ca-certificates"); !strings.Contains(out, "done.") {
		t.Errorf("update-ca-certificates: %s", out)
	}
	ask("curl", plain+"curl -sS -m 60 -H "+header, false)
	if err := h.guest.Client.RemoveRoom(t.Context(), room.User, true); err != nil {
		t.Fatal(err)
	}
	ensure() // a new room trusts it from its start
	ask("curl", plain+"curl -sS -m 60 -H "+header, false)
	h.shutdown(t)
}
