package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/bridge/inference/inferencetest"
)

// galleryWeb is the web to those plugins of the gallery that read it: a page and a feed.
func galleryWeb(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := `<html><head><title>Tea &amp; Toast</title><script>no()</script></head><body><h1>Tea</h1><p>is at five.</p></body></html>`
		if r.URL.Path == "/feed" {
			text = `<rss version="2.0"><channel><item><title>Rain</title><link>https://news.example/rain</link></item></channel></rss>`
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return "http://10.0.2.2:" + at.Port() // this computer, as guests see it
}

// tryGallery installs those examples that need no package which the guest does not have, and calls
// their tools.
func tryGallery(t *testing.T) {
	web, endpoint := galleryWeb(t), new(inferencetest.Endpoint)
	server := httptest.NewServer(endpoint)
	defer server.Close()
	ok(t, "config", "set", "secrets=file", "inference.baseURL="+server.URL+"/v1", "inference.model="+inferencetest.Echo)
	if code, _, stderr := fed(t, inferencetest.Key, "secret", "set", "@host", "INFERENCE_API_KEY"); code != 0 {
		t.Fatal(stderr)
	}
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true")
	const prepare = `git init -q work && cd work && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 'The first' && cd .. &&
		python3 -c 'import sqlite3; db = sqlite3.connect("tea.db"); db.execute("CREATE TABLE tea (name)"); db.execute("INSERT INTO tea VALUES (\"Assam\")"); db.commit()' &&
		echo 'Tea is at five.' > long.txt && mv work tea.db long.txt /tmp`
	if code, out := as(t, "alice", prepare); code != 0 {
		t.Fatal(out)
	}
	for _, tc := range []struct{ plugin, tool, arguments, want string }{
		{"git-helper", "overview", `{"folder": "/tmp/work"}`, "The first"},
		{"git-helper", "churn", `{"folder": "/tmp/work"}`, `"exit_code":0`},
		{"sqlite-explorer", "schema", `{"file": "/tmp/tea.db"}`, "CREATE TABLE tea"},
		{"sqlite-explorer", "query", `{"file": "/tmp/tea.db", "sql": "SELECT name FROM tea"}`, "Assam"},
		{"web-clipper", "clip", `{"url": "` + web + `/page"}`, "clips/tea-toast.txt\\nTea\\nis at five."},
		{"summariser", "summarise", `{"file": "/tmp/long.txt"}`, "Tea is at five."},
		{"rss-watcher", "add", `{"url": "` + web + `/feed"}`, "/feed"},
		{"rss-watcher", "feeds", `{}`, "/feed"},
	} {
		recipe := filepath.Join("..", "..", "examples", "plugins", tc.plugin+".json")
		if tc.plugin == "rss-watcher" {
			recipe = hasty(t, recipe)
		}
		if out := ok(t, "plugin", "status", "alice"); !strings.Contains(out, tc.plugin) {
			ok(t, "plugin", "import", recipe)
			ok(t, "plugin", "install", tc.plugin, "alice")
		}
		if out := ok(t, "tool", "call", "alice", tc.plugin+"_"+tc.tool, tc.arguments, "--json"); !strings.Contains(out, tc.want) {
			t.Errorf("%s_%s: no %q in %s", tc.plugin, tc.tool, tc.want, out)
		}
	}
	// The watcher's daemon tells what is new, and its own handler hears that.
	until(t, func() bool {
		return strings.Contains(ok(t, "tool", "call", "alice", "rss-watcher_news", "--json"), "news.example/rain")
	})
	for _, plugin := range []string{"git-helper", "sqlite-explorer", "web-clipper", "summariser", "rss-watcher"} {
		ok(t, "plugin", "uninstall", plugin, "alice")
	}
	if out := ok(t, "tool", "list", "alice"); strings.Contains(out, "rss-watcher") {
		t.Errorf("uninstalled: %s", out)
	}
	ok(t, "config", "set", "inference.baseURL=")
}

// hasty is the watcher's recipe with a second between its looks.
func hasty(t *testing.T, recipe string) string {
	text, err := os.ReadFile(recipe)
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r["daemon"].(map[string]any)["env"] = map[string]string{"INTERVAL": "1"}
	if text, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(recipe))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
