package control

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

func TestToken(t *testing.T) {
	home := config.Home(t.TempDir() + "/home")
	path := filepath.Join(string(home), "config", "a-token")
	first, err := ReadToken(home, path)
	if err != nil || len(first) < minToken {
		t.Fatalf("%q %v", first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if again, err := ReadToken(home, path); err != nil || again != first {
		t.Errorf("%q %v", again, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(home, path); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("a token that others can read: %v", err)
	}
}

const page = "https://app.example"

// guarded returns a handler that admits requests with the token, and of one page.
func guarded() http.Handler {
	g := Guard{
		Token: "secret", Hosts: LocalHosts("127.0.0.1:80"), Origins: []string{page},
		OtherHost: "Call it by its address.", OtherOrigin: "Start it with --origin.", Refuse: refuse,
	}
	return g.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), slog.New(slog.DiscardHandler)).Handler
}

// Only requests with the token, to this computer and of allowed pages pass. The others are
// told what to do, and their connections are closed.
func TestGuard(t *testing.T) {
	for _, tc := range []struct {
		name, host, origin, authorization string
		pass                              bool
	}{
		{"as it should be", "127.0.0.1:8137", "", "Bearer secret", true},
		{"a name", "localhost:8137", "", "Bearer secret", true},
		{"IPv6", "[::1]:8137", "", "Bearer secret", true},
		{"an allowed page", "localhost", page, "Bearer secret", true},
		{"no token", "localhost", "", "", false},
		{"another token", "localhost", "", "Bearer secrets", false},
		{"another scheme", "localhost", "", "Basic secret", false},
		{"N19 DNS rebinding", "evil.example:8137", "", "Bearer secret", false},
		{"N19 DNS rebinding without a port", "evil.example", "", "Bearer secret", false},
		{"N19 DNS rebinding to a page of the same name", "evil.example:8137", "http://evil.example:8137", "Bearer secret", false},
		{"another page", "localhost", "https://evil.example", "Bearer secret", false},
		{"a page without a name", "localhost", "null", "Bearer secret", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, w := httptest.NewRequest(http.MethodPost, "http://x/osaurus.control.v1.Sandbox/Status", strings.NewReader("{}")), httptest.NewRecorder()
			r.Host = tc.host
			r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {tc.authorization}}
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
			guarded().ServeHTTP(w, r)
			if (w.Code == http.StatusNoContent) != tc.pass || (w.Header().Get("Connection") == "close") == tc.pass {
				t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
			}
			if text := w.Body.String(); !tc.pass && (!strings.Contains(text, `"rejected"`) || !strings.Contains(text, `"advice"`)) {
				t.Errorf("%s is no refusal with advice", text)
			}
		})
	}
}

// Browsers ask before they send the token. Only an allowed page that uses this computer's
// own name is told that it may call.
func TestPreflight(t *testing.T) {
	for _, tc := range []struct {
		host, origin string
		allowed      bool
	}{{"localhost", page, true}, {"localhost", "https://evil.example", false}, {"evil.example", page, false}, {"localhost", "", false}} {
		r, w := httptest.NewRequest(http.MethodOptions, "http://x/", nil), httptest.NewRecorder()
		r.Host = tc.host
		r.Header = http.Header{"Access-Control-Request-Method": {http.MethodPost}, "Access-Control-Request-Headers": {"authorization"}}
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		guarded().ServeHTTP(w, r)
		h := w.Header()
		if (w.Code == http.StatusNoContent) != tc.allowed || (h.Get("Access-Control-Allow-Origin") == page) != tc.allowed || (h.Get("Access-Control-Allow-Headers") == "authorization") != tc.allowed {
			t.Errorf("%+v: %d %v", tc, w.Code, h)
		}
	}
}

func TestListenTCPRefusesTheWorld(t *testing.T) {
	var s Server
	for address, kind := range map[string]fault.Kind{"0.0.0.0:0": fault.Rejected, "[::]:0": fault.Rejected, "192.0.2.1:80": fault.Rejected, "localhost": fault.InvalidArgs, "8137": fault.InvalidArgs} {
		if _, err := s.ListenTCP(TCP{Address: address}); fault.KindOf(err) != kind || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v", address, err)
		}
	}
}
