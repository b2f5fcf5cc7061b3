package policy

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"osaurus-sandbox/config"
)

func TestRequests(t *testing.T) {
	for _, tc := range []struct {
		mode    config.NetworkMode
		rules   string
		request string // METHOD PATH, or empty before the request is known
		want    Action
		opened  bool
	}{
		{"allow", "allow a.example", "", Allow, false},
		{"allow", "allow a.example", "POST /x", Allow, false},
		{"allow", "allow a.example method=GET", "", Allow, true},
		{"allow", "allow a.example method=GET", "GET /x", Allow, true},
		{"allow", "allow a.example method=GET", "POST /x", Deny, true},
		{"allow", "allow a.example method=GET,allow a.example method=POST path=/v1/*", "POST /v1/x?y=/z", Allow, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/", Allow, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1", Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v10", Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/a%20b", Allow, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/../admin", Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/%2e%2e/admin", Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/%252e%252e/admin", Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/..%2fadmin", Deny, true},
		{"allow", "allow a.example path=/v1/*", `GET /v1/..\admin`, Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/..;/admin", Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1//x", Deny, true},
		{"allow", "allow a.example path=/v1/*", "GET /v1/%zz", Deny, true},
		{"allow", "allow a.example path=/v1", "GET /v1", Allow, true},
		{"allow", "allow a.example path=/v1", "GET /v1/", Deny, true},
		{"allow", "allow a.example path=/*", "GET /", Allow, true},
		{"allow", "allow a.example path=/*", "OPTIONS *", Deny, true},
		{"ask", "allow a.example method=GET", "POST /", Ask, true},
		{"open", "allow a.example method=GET", "GET /", Allow, true},
		{"open", "allow a.example method=GET", "POST /", Deny, true},
		{"open", "allow b.example method=GET", "POST /", Allow, false},
		{"open", "deny a.example method=DELETE", "", Allow, true},
		{"open", "deny a.example method=DELETE", "delete /x", Deny, true},
		{"open", "deny a.example method=DELETE", "GET /x", Allow, true},
		{"open", "deny a.example path=/admin/*", "GET /a/../admin/x", Deny, true},
		{"open", "deny a.example path=/admin/*", "GET /%61dmin/x", Deny, true},
		{"open", "deny a.example path=/admin/*", "GET //admin/x", Deny, true},
		{"open", "deny a.example path=/admin/*", "GET /%zz", Deny, true},
		{"open", "deny a.example path=/admin/*", "GET /public", Allow, true},
		{"open", "deny a.example:444 method=GET", "", Allow, false},
		{"open", "deny a.example method=GET until=2026-01-01", "GET /", Allow, false},
		{"none", "allow a.example method=GET", "", Deny, false},
		{"allow", "allow @github method=GET", "", Deny, false},
		{"allow", "allow * method=GET", "GET /", Allow, true},
	} {
		p := Policy{Mode: tc.mode, Rules: rules(t, strings.Split(tc.rules, ",")...)}
		to := target(t, "a.example@8.8.8.8")
		to.Method, to.Path, _ = strings.Cut(tc.request, " ")
		if d := p.Decide(to, today()); d.Action != tc.want {
			t.Errorf("%s [%s] %s: %+v, want %s", tc.mode, tc.rules, tc.request, d, tc.want)
		}
		if got := p.Opened(to, today()); got != tc.opened {
			t.Errorf("%s [%s]: opened is %t", tc.mode, tc.rules, got)
		}
		to.Protocol = UDP
		if p.Opened(to, today()) {
			t.Errorf("[%s] opens UDP", tc.rules)
		}
	}
}

// FuzzPath checks that no reading of an allowed path leaves the rule's folder, and that a rule to
// deny a folder covers at least what one to allow it does.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/v1/x", "/v1/../x", "/v1/%2e%2e/x", "/v1/..%2fx", "/v1/%252e/x", `/v1/..\x`, "/v1//x", "/v1/..;/x", "*", "", "/v1/?/../x"} {
		f.Add(seed)
	}
	allow, deny := rules(f, "allow a.example path=/v1/*")[0], rules(f, "deny a.example path=/v1/*")[0]
	f.Fuzz(func(t *testing.T, text string) {
		if !matchesPath(&allow, text) {
			return
		}
		reading, _, _ := strings.Cut(text, "?")
		for range 3 { // a proxy and a server may each decode it
			for _, r := range []string{reading, strings.ReplaceAll(reading, `\`, "/"), strings.ReplaceAll(reading, ";", "/")} {
				if !strings.HasPrefix(path.Clean(r)+"/", "/v1/") {
					t.Fatalf("%q is allowed and may be read as %q", text, r)
				}
			}
			var err error
			if reading, err = url.PathUnescape(reading); err != nil {
				break
			}
		}
		if !matchesPath(&deny, text) {
			t.Fatalf("%q is allowed and not denied", text)
		}
	})
}
