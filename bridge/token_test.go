package bridge_test

import (
	"regexp"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
)

// TestTokens checks that a token is valid for one user until it is revoked or replaced.
func TestTokens(t *testing.T) {
	tokens := bridge.NewTokens()
	first := tokens.Mint(alice)
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`).MatchString(string(first)) {
		t.Errorf("minted %q", first)
	}
	if h, ok := tokens.Find(string(first), alice.UID); !ok || h != alice {
		t.Errorf("found %+v, %v", h, ok)
	}
	bobs := tokens.Mint(bob)
	for _, c := range []struct {
		shown string
		uid   uint32
	}{
		{string(first), bob.UID}, {string(first), 0}, {string(first), alice.UID + 1<<16}, {string(bobs), alice.UID}, {"", alice.UID}, {"", 0},
		{string(first) + "=", alice.UID}, {string(first)[:42], alice.UID}, {strings.ToLower(string(first)), alice.UID},
		{strings.Repeat("A", 43), alice.UID}, {strings.Repeat("A", 1<<20), alice.UID},
	} {
		if h, ok := tokens.Find(c.shown, c.uid); ok {
			t.Errorf("%.50q of %d is %+v", c.shown, c.uid, h)
		}
	}
	second := tokens.Mint(alice)
	if _, ok := tokens.Find(string(first), alice.UID); ok || second == first {
		t.Error("a replaced token is valid")
	}
	tokens.Rename(alice.User, "alicia")
	if h, ok := tokens.Find(string(second), alice.UID); !ok || h.Name != "alicia" || h.Agent != alice.Agent {
		t.Errorf("renamed to %+v, %v", h, ok)
	}
	tokens.Revoke(alice.User)
	tokens.Revoke(alice.User)
	tokens.Rename(alice.User, "alice")
	if _, ok := tokens.Find(string(second), alice.UID); ok {
		t.Error("a revoked token is valid")
	}
	if _, ok := tokens.Find(string(bobs), bob.UID); !ok {
		t.Error("bob's token was revoked with alice's")
	}
	third := tokens.Mint(alice)
	tokens.RevokeAll()
	for token, h := range map[bridge.Token]bridge.Holder{bobs: bob, third: alice} {
		if _, ok := tokens.Find(string(token), h.UID); ok {
			t.Errorf("%s's token is valid", h.Name)
		}
	}
}

// TestEveryRouteAuthenticates checks that every route gives the same answer to all callers without
// a valid token, and calls no service.
func TestEveryRouteAuthenticates(t *testing.T) {
	w := newWorld(t)
	earlier := string(w.alice) // of an earlier boot
	w.tokens.RevokeAll()
	w.alice, w.bob = w.tokens.Mint(alice), w.tokens.Mint(bob)
	revoked := string(w.bob)
	w.tokens.Revoke(bob.User)
	for _, c := range everyRoute {
		var answers []string
		for name, try := range map[string]func(*request){
			"no token":                      func(r *request) { r.token = "" },
			"an unknown token":              func(r *request) { r.token = strings.Repeat("A", 43) },
			"alice's token under bob's uid": func(r *request) { r.uid = bob.UID },
			"alice's token under root's":    func(r *request) { r.uid = 0 },
			"a revoked token":               func(r *request) { r.token, r.uid = revoked, bob.UID },
			"the token of an earlier boot":  func(r *request) { r.token = earlier },
			"another scheme":                func(r *request) { r.headers["Authorization"], r.token = "Basic "+r.token, "" },
			"a token twice":                 func(r *request) { r.headers["authorization"] = "Bearer " + r.token },
			"two in one":                    func(r *request) { r.token += " " + r.token },
			"a token in the query":          func(r *request) { r.path, r.token = r.path+"?token="+r.token, "" },
			"only a name":                   func(r *request) { r.headers["X-Osaurus-User"], r.token = "agent-alice", "" },
		} {
			r := c.of(w, alice)
			try(&r)
			got := w.ask(r)
			if got.status != 401 || got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s with %s: %v", c.method, c.path, name, got)
			}
			answers = append(answers, got.body)
		}
		for _, a := range answers {
			if a != answers[0] {
				t.Errorf("%s %s gives different answers: %s and %s", c.method, c.path, a, answers[0])
			}
		}
	}
	if n := w.services.count(); n > 0 {
		t.Errorf("services were asked for %d things", n)
	}
	for _, authorization := range []string{"bearer " + string(w.alice), "BEARER   " + string(w.alice) + "  "} {
		r := w.as(alice, "POST", "/api/log", `{"message":"a"}`)
		r.token, r.headers["Authorization"] = "", authorization
		if got := w.ask(r); got.status != 200 {
			t.Errorf("%q: %v", authorization, got)
		}
	}
}
