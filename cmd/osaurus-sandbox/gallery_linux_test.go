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
	"time"

	"osaurus-sandbox/bridge/inference/inferencetest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/tools/packages/packagestest"
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

// tryGallery installs those examples that need no package which the guest does not have, and what
// plugin init has written, and calls their tools.
func tryGallery(t *testing.T) {
	web, endpoint := galleryWeb(t), new(inferencetest.Endpoint)
	server := httptest.NewServer(endpoint)
	defer server.Close()
	ok(t, "config", "set", "secrets=file", "inference.baseURL="+server.URL+"/v1", "inference.model="+inferencetest.Echo)
	if code, _, stderr := fed(t, inferencetest.Key, "secret", "set", "@host", "INFERENCE_API_KEY"); code != 0 {
		t.Fatal(stderr)
	}
	ok(t, "agent", "set", "alice", "autonomousExec.enabled=true", "hostServices=true")
	const prepare = `git init -q work && cd work && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 'The first' && cd .. &&
		python3 -c 'import sqlite3; db = sqlite3.connect("tea.db"); db.execute("CREATE TABLE tea (name)"); db.execute("INSERT INTO tea VALUES (\"Assam\")"); db.commit()' &&
		echo 'Tea is at five.' > long.txt && mv work tea.db long.txt /tmp`
	if code, out := as(t, "alice", prepare); code != 0 {
		t.Fatal(out)
	}
	begun := filepath.Join(t.TempDir(), "begun.json")
	ok(t, "plugin", "init", "Just Begun", "--output", begun)
	for _, tc := range []struct{ plugin, tool, arguments, want string }{
		{"just-begun", "count", `{"file": "/tmp/long.txt"}`, `"stdout":"4`},
		{"git-helper", "overview", `{"folder": "/tmp/work"}`, "The first"},
		{"git-helper", "churn", `{"folder": "/tmp/work"}`, `"exit_code":0`},
		{"sqlite-explorer", "schema", `{"file": "/tmp/tea.db"}`, "CREATE TABLE tea"},
		{"sqlite-explorer", "query", `{"file": "/tmp/tea.db", "sql": "SELECT name FROM tea"}`, "Assam"},
		{"web-clipper", "clip", `{"url": "` + web + `/page"}`, "clips/tea-toast.txt\\nTea\\nis at five."},
		{"summariser", "summarise", `{"file": "/tmp/long.txt"}`, "Tea is at five."},
		{"rss-watcher", "add", `{"url": "` + web + `/feed"}`, "/feed"},
		{"rss-watcher", "feeds", `{}`, "/feed"},
	} {
		recipe := filepath.Join("..", "..", "plugins", "examples", tc.plugin+".json")
		switch tc.plugin {
		case "just-begun":
			recipe = begun
		case "rss-watcher":
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
	if out := ok(t, "tool", "call", "alice", "rss-watcher_remove", `{"url": "`+web+`/feed"}`, "--json"); strings.Contains(out, "/feed") {
		t.Errorf("a removed feed is watched: %s", out)
	}
	for _, plugin := range []string{"just-begun", "git-helper", "sqlite-explorer", "web-clipper", "summariser", "rss-watcher"} {
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

// TestWholeGallery installs those recipes whose packages are downloaded, the reference page's
// among them, and calls their tools. The system's packages are real ones, from Debian's archive; Python's
// index is a stand-in, whose packages of these names are empty: it takes OSAURUS_GALLERY=all, the web, and
// some minutes on an emulated processor.
func TestWholeGallery(t *testing.T) {
	if os.Getenv("OSAURUS_GALLERY") != "all" {
		t.Skip("it downloads some hundred megabytes: make gallery")
	}
	home := sessionHome(t, "home")
	ok(t, "config", "set", "pack="+lab.DebianPack(t).Dir, "memoryGB=2", "secrets=file")
	ok(t, "up")
	ok(t, "agent", "create", "alice", "autonomousExec.enabled=true", "hostServices=true")
	if code, _, stderr := fed(t, "none", "secret", "set", "alice", "OPENAI_API_KEY"); code != 0 {
		t.Fatal(stderr)
	}
	install := func(t *testing.T, recipe, id string) {
		t.Helper()
		ok(t, "plugin", "import", recipe)
		began := time.Now()
		ok(t, "plugin", "install", id, "alice")
		t.Logf("%s was installed in %v", id, time.Since(began).Round(time.Second))
	}
	calls := func(t *testing.T, tool, arguments string, wants ...string) {
		t.Helper()
		out := ok(t, "tool", "call", "alice", tool, arguments, "--json")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in %s", tool, want, out)
			}
		}
	}
	examples := filepath.Join("..", "..", "plugins", "examples")
	if code, out := as(t, "alice", `mkdir -p ~/files && cd ~/files && printf 'city,price\nBern,12\nUri,8\n' > prices.csv &&
		python3 -c 'open("text.pdf", "wb").write(b"%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 144]/Contents 4 0 R/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Courier>>>>>>>>endobj 4 0 obj<</Length 43>>stream\nBT /F1 18 Tf 20 80 Td (Tea is at five) Tj ET\nendstream endobj\ntrailer<</Root 1 0 R>>\n")' &&
		printf 'P3 64 32 255\n' > wide.ppm && seq -s ' ' 1 6144 | tr -c '0-9\n' ' ' | awk '{for (i = 1; i <= NF; i++) print $i % 256}' >> wide.ppm`); code != 0 {
		t.Fatal(out)
	}
	const files = "/workspace/agents/alice/files/"

	t.Run("pdf-text", func(t *testing.T) {
		install(t, filepath.Join(examples, "pdf-text.json"), "pdf-text")
		calls(t, "pdf-text_text", `{"file": "`+files+`text.pdf"}`, "Tea is at five")
		calls(t, "pdf-text_about", `{"file": "`+files+`text.pdf"}`, "Pages:", "300 x 144 pts")
	})
	t.Run("image-resize", func(t *testing.T) {
		install(t, filepath.Join(examples, "image-resize.json"), "image-resize")
		calls(t, "image-resize_resize", `{"file": "`+files+`wide.ppm", "out": "`+files+`small.png", "width": 16}`, "small.png: 16 x 8")
	})
	t.Run("csv-tools", func(t *testing.T) {
		install(t, filepath.Join(examples, "csv-tools.json"), "csv-tools")
		calls(t, "csv-tools_describe", `{"file": "`+files+`prices.csv"}`, "2 rows", "10.0")
		calls(t, "csv-tools_query", `{"file": "`+files+`prices.csv", "where": "price > 10"}`, `city,price\nBern,12\n`)
	})
	// After csv-tools, whose real pandas the page's recipe finds: pip has only the others to fetch.
	t.Run("the page's", func(t *testing.T) {
		index := packagestest.NewPip(t,
			packagestest.Package{Name: "matplotlib", Files: map[string]string{"matplotlib.py": "def use(backend): pass\n"}},
			packagestest.Package{Name: "seaborn", Files: map[string]string{"seaborn.py": ""}})
		conf := filepath.Join(home.AgentHome("alice"), ".config", "pip", "pip.conf")
		if err := os.MkdirAll(filepath.Dir(conf), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(conf, []byte(index.Config(t, packagestest.ToGuests)), 0o644); err != nil {
			t.Fatal(err)
		}
		install(t, pageRecipe, "python-data-tools")
		if code, out := as(t, "alice", "ls ~/.local/lib/python3*/site-packages"); code != 0 || !strings.Contains(out, "matplotlib.py") || !strings.Contains(out, "seaborn.py") {
			t.Errorf("pip has installed: %d, %s", code, out)
		}
		if out := ok(t, "tool", "list", "alice"); !strings.Contains(out, "python-data-tools_analyze_csv") {
			t.Errorf("%s", out)
		}
		calls(t, "python-data-tools_analyze_csv", `{"file": "`+files+`prices.csv"}`, "mean", "10.0")
	})
}
