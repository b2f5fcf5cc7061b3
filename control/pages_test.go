package control

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A page that may call is told so before it shows the token, and by no name but this
// listener's; others are told nothing that their browser would take for leave.
func TestPages(t *testing.T) {
	const page = "https://app.example"
	g := Guard{Token: "secret", Hosts: LocalHosts("127.0.0.1:80"), Origins: []string{page}, Refuse: refuse}
	for name, tc := range map[string]struct {
		host, origin string
		method       string
		status       int
		leave        bool
	}{
		"asks":               {"localhost", page, http.MethodOptions, http.StatusNoContent, true},
		"calls":              {"localhost", page, http.MethodPost, http.StatusTeapot, true},
		"another asks":       {"localhost", "https://evil.example", http.MethodOptions, http.StatusBadRequest, false},
		"by another name":    {"evil.example", page, http.MethodOptions, http.StatusBadRequest, false},
		"nobody's page asks": {"localhost", "", http.MethodOptions, http.StatusTeapot, false},
	} {
		r, w := httptest.NewRequest(tc.method, "http://x/", nil), httptest.NewRecorder()
		r.Host = tc.host
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		r.Header.Set("Access-Control-Request-Headers", "authorization")
		r.Header.Set("Authorization", "Bearer secret")
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		g.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), slog.New(slog.DiscardHandler)).Handler.ServeHTTP(w, r)
		h := w.Header()
		if leave := h.Get("Access-Control-Allow-Origin") != ""; w.Code != tc.status || leave != tc.leave || leave && h.Get("Access-Control-Allow-Origin") != tc.origin {
			t.Errorf("%s: %d %v", name, w.Code, h)
		}
		if asked := w.Code == http.StatusNoContent; asked != (h.Get("Access-Control-Allow-Headers") == "authorization") {
			t.Errorf("%s: %v", name, h)
		}
	}
}
