package control

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func TestGuard(t *testing.T) {
	g := Guard{
		Token: "secret", Hosts: LocalHosts("127.0.0.1:80"), Origins: []string{"https://app.example"},
		OtherHost: "Call it by its address.", OtherOrigin: "Start it with --origin.", Refuse: refuse,
	}
	handler := g.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), slog.New(slog.DiscardHandler)).Handler
	for _, tc := range []struct {
		name, host, origin, authorization string
		pass                              bool
	}{
		{"as it should be", "127.0.0.1:8137", "", "Bearer secret", true},
		{"a name", "localhost:8137", "", "Bearer secret", true},
		{"IPv6", "[::1]:8137", "", "Bearer secret", true},
		{"a page that may", "localhost", "https://app.example", "Bearer secret", true},
		{"no token", "localhost", "", "", false},
		{"another token", "localhost", "", "Bearer secrets", false},
		{"another scheme", "localhost", "", "Basic secret", false},
		{"a name that was pointed here", "evil.example:8137", "", "Bearer secret", false},
		{"a page that may not", "localhost", "https://evil.example", "Bearer secret", false},
		{"a page without a name", "localhost", "null", "Bearer secret", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://x/osaurus.control.v1.Sandbox/Status", strings.NewReader("{}"))
		r.Host = tc.host
		r.Header.Set("Content-Type", "application/json")
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		if tc.authorization != "" {
			r.Header.Set("Authorization", tc.authorization)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if (w.Code == http.StatusNoContent) != tc.pass {
			t.Errorf("%s: %d %s", tc.name, w.Code, w.Body)
		}
		if said := w.Body.String(); !tc.pass && (!strings.Contains(said, `"rejected"`) || !strings.Contains(said, `"advice"`)) {
			t.Errorf("%s: %s is no refusal that says what to do", tc.name, said)
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
