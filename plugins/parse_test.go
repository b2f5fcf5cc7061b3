package plugins_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/plugins"
)

func parse(t *testing.T, text string) plugins.Recipe {
	t.Helper()
	r, err := plugins.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Encode and Parse are inverse, and the hash ignores the time of the last change.
func TestEncode(t *testing.T) {
	r := parse(t, string(readFile(t, "testdata/python-data-tools.json")))
	once, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if again := parse(t, string(once)); !reflect.DeepEqual(r, again) {
		t.Errorf("read again:\n%+v\nwant\n%+v", again, r)
	}
	hash, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	r.ModifiedAt = time.Date(2026, 5, 31, 12, 0, 0, 1000, time.UTC)
	if later, err := r.Hash(); err != nil || later != hash {
		t.Errorf("hash after a change of the time: %s, %v", later, err)
	}
	r.Setup += " scipy"
	if other, err := r.Hash(); err != nil || other == hash {
		t.Errorf("hash after a change of setup: %s, %v", other, err)
	}
}

func value(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Every member of the format is read, and the canonical form is written as it was.
func TestWholeRecipe(t *testing.T) {
	text := string(readFile(t, "testdata/everything.json"))
	r := parse(t, text)
	encoded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if string(encoded) != text {
		t.Errorf("written as\n%s", encoded)
	}
	if s := r.Events.Subscribe; len(s) != 2 || s[0].Topic != "rss.*" || s[0].Limit() != 5*time.Second || !s[0].Topic.Holds("rss.new_item") || s[0].Topic.Holds("rs") || s[1].Topic.Holds("mail.sent") {
		t.Errorf("subscriptions: %+v", s)
	}
	if p := r.Tools[0].Parameters; !p["query"].MustBeGiven() || p["limit"].MustBeGiven() || p["exact"].MustBeGiven() || *p["limit"].Default != "10" || plugins.ParamName("query").Variable() != "PARAM_QUERY" {
		t.Errorf("arguments: %+v", p)
	}
	if got := fmt.Sprint(r.Permissions.Network.Domains()); got != "[api.example.com example.org]" {
		t.Errorf("domains: %s", got)
	}
	if found := plugins.Lint([]byte(text)); len(found) != 1 || found[0].Rule != "no-handler" {
		t.Errorf("findings: %+v", found)
	}
}

func TestIDs(t *testing.T) {
	for name, want := range map[string]string{"Python Data Tools": "python-data-tools", "a": "a", "A_b.C-d 9": "a_b.c-d-9", "a  b": "a--b"} {
		if id, err := plugins.IDOf(name); err != nil || string(id) != want {
			t.Errorf("%q is %q, %v", name, id, err)
		}
	}
	for _, name := range []string{"", " a", "a ", "ä", "a/b", "a\tb", "osaurus", "Osaurus_x", "osaurus-host", "sandbox_exec", strings.Repeat("a", 65)} {
		if id, err := plugins.IDOf(name); err == nil {
			t.Errorf("%q is %q", name, id)
		}
	}
}

func TestDiff(t *testing.T) {
	before := parse(t, `{"name":"P","description":"d","setup":"a","files":{"gone":"x\n","same":"s"}}`)
	after := parse(t, `{"name":"P","description":"d","setup":"b","files":{"new":"y\n","same":"s"}}`)
	diff, err := plugins.Diff(before, after)
	for _, want := range []string{"--- recipe\n", "-  \"setup\": \"a\"\n+  \"setup\": \"b\"\n", "--- files/gone\n", "-x\n", "--- files/new\n", "+y\n"} {
		if err != nil || !strings.Contains(diff, want) {
			t.Errorf("%v, no %q in\n%s", err, want, diff)
		}
	}
	if strings.Contains(diff, "same") {
		t.Errorf("an equal file is in\n%s", diff)
	}
	if diff, err := plugins.Diff(after, after); err != nil || diff != "" {
		t.Errorf("from itself: %s, %v", diff, err)
	}
}

// A file of the desktop app's library loses nothing.
func TestRecipeOfTheApp(t *testing.T) {
	r := parse(t, string(readFile(t, "testdata/desktop-app.json")))
	if got := fmt.Sprintln(r.Version, r.ModifiedAt, r.Metadata["mcp"], r.Metadata["created_by"], r.Permissions.Network, r.Events.Subscribe[0].Topic, r.Tools[0].Parameters["days"].MustBeGiven()); got !=
		"3 2026-05-31 12:00:00 +0000 UTC map[command:node server.js] agent api.example.com app.started false\n" {
		t.Errorf("%s", got)
	}
}
