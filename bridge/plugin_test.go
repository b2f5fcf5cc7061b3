package bridge_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/config"
)

// program serves connections from programs of one plugin of alice, as the guest reports it.
func (w *world) program(plugin config.PluginID) *world {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		w.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := w.server.Serve(bridgetest.As(l, alice.UID, plugin)); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	other := *w
	other.dial = func(uint32) net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			w.t.Fatal(err)
		}
		return c
	}
	return &other
}

// TestPluginIsWhoTheGuestSays checks that the guest, not the program, says which installed plugin calls.
// Any program may use a name that is not an installed plugin.
func TestPluginIsWhoTheGuestSays(t *testing.T) {
	w := newWorld(t)
	w.services.mu.Lock()
	w.services.has = map[config.PluginID]bool{"rss": true, "mail": true}
	w.services.mu.Unlock()
	const secret, setting, chat = "/api/secrets/TOKEN", "/api/config/last", "/api/inference/chat"
	const question = `{"messages":[{"role":"user","content":"hi"}]}`
	rss, mail, gone := w.program("rss"), w.program("mail"), w.program("gone")
	for name, tc := range map[string]struct {
		from               *world
		says               string // the header; none if empty
		method, path, body string
		status             int
		as                 string // the caller that the service saw; empty if none
	}{
		"its secret":                      {rss, "rss", "GET", secret, "", 200, "agent-alice/rss"},
		"its secret, without saying so":   {rss, "", "GET", secret, "", 200, "agent-alice/rss"},
		"its setting":                     {rss, "rss", "POST", setting, `{"value":"1"}`, 200, "agent-alice/rss"},
		"another plugin's setting":        {rss, "mail", "GET", setting, "", 403, ""},
		"another plugin's secret":         {mail, "rss", "GET", secret, "", 403, ""},
		"a name that is none":             {rss, "other", "GET", secret, "", 403, ""},
		"a chat under another's name":     {rss, "mail", "POST", chat, question, 200, "agent-alice/rss"},
		"a chat without saying so":        {rss, "", "POST", chat, question, 200, "agent-alice/rss"},
		"the agent as the plugin":         {w, "rss", "GET", secret, "", 403, ""},
		"the agent as the plugin, set":    {w, "rss", "POST", setting, `{"value":"1"}`, 403, ""},
		"the agent chats in its folder":   {w, "rss", "POST", chat, question, 200, "agent-alice/"},
		"the agent, in a name space":      {w, "notes", "GET", secret, "", 200, "agent-alice/notes"},
		"a plugin that is gone":           {gone, "gone", "GET", secret, "", 403, ""},
		"a plugin that is gone, chatting": {gone, "", "POST", chat, question, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.from.in(t)
			before := w.services.count()
			r := w.as(alice, tc.method, tc.path, tc.body)
			delete(r.headers, "X-Osaurus-Plugin")
			if tc.says != "" {
				r.headers["X-Osaurus-Plugin"] = tc.says
			}
			got := w.ask(r)
			asked, _, _ := strings.Cut(w.services.last(), " ")
			if w.services.count() == before {
				asked = ""
			}
			if got.status != tc.status || asked != tc.as {
				t.Errorf("%v, asked by %q, want %d by %q", got, asked, tc.status, tc.as)
			}
		})
	}
}
