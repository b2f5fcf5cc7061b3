package plugins_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
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

// TestRecipeOfThePage reads the recipe of the format's own page, word for word.
func TestRecipeOfThePage(t *testing.T) {
	text := readFile(t, "testdata/python-data-tools.json")
	r := parse(t, string(text))
	want := plugins.Recipe{
		Name: "Python Data Tools", Description: "Data analysis toolkit with pandas and matplotlib", Version: "1.0.0", Author: "your-name",
		Dependencies: []plugins.Dependency{"python3", "py3-pip"},
		Setup:        "pip install --user pandas matplotlib seaborn",
		Files: map[plugins.FilePath]string{
			"helpers.py": "import pandas as pd\nimport matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"},
		Tools: []plugins.Tool{{
			ID: "analyze_csv", Description: "Load a CSV file and return summary statistics",
			Parameters: map[plugins.ParamName]plugins.Param{"file": {Type: plugins.String, Description: "Path to the CSV file"}},
			Run:        `cd $HOME/plugins/python-data-tools && python3 -c "import pandas as pd; df = pd.read_csv('$PARAM_FILE'); print(df.describe().to_string())"`,
		}},
		Secrets:     []config.SecretName{"OPENAI_API_KEY"},
		Permissions: plugins.Permissions{Network: plugins.NetworkOutbound, Inference: true},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("read\n%+v\nnot\n%+v", r, want)
	}
	if id, err := r.ID(); err != nil || id != "python-data-tools" {
		t.Errorf("its id is %q, %v", id, err)
	}
}

// TestEncode writes what was read, and reads what was written.
func TestEncode(t *testing.T) {
	r := parse(t, string(readFile(t, "testdata/python-data-tools.json")))
	once, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again := parse(t, string(once))
	if !reflect.DeepEqual(r, again) {
		t.Errorf("read again it is\n%+v\nnot\n%+v", again, r)
	}
	twice, err := again.Encode()
	if err != nil || !bytes.Equal(once, twice) {
		t.Errorf("written again it is\n%s\nnot\n%s", twice, once)
	}
	hash, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	r.ModifiedAt = time.Date(2026, 5, 31, 12, 0, 0, 1000, time.UTC)
	if later, err := r.Hash(); err != nil || later != hash {
		t.Errorf("its hash changes with the time: %s, %s", hash, later)
	}
	r.Setup += " scipy"
	if other, err := r.Hash(); err != nil || other == hash {
		t.Errorf("its hash does not change with setup: %s, %v", other, err)
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

// TestWholeRecipe reads every member of the format there is, and writes it in one way.
func TestWholeRecipe(t *testing.T) {
	text := string(readFile(t, "testdata/everything.json"))
	r := parse(t, text)
	encoded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if string(encoded) != text {
		t.Errorf("it is written as\n%s", encoded)
	}
	if s := r.Events.Subscribe; len(s) != 2 || s[0].Topic != "rss.*" || s[0].Limit() != 5*time.Second || !s[0].Topic.Holds("rss.new_item") || s[0].Topic.Holds("rs") || s[1].Topic.Holds("mail.sent") {
		t.Errorf("it hears %+v", s)
	}
	if p := r.Tools[0].Parameters; !p["query"].MustBeGiven() || p["limit"].MustBeGiven() || p["exact"].MustBeGiven() || *p["limit"].Default != "10" || plugins.ParamName("query").Variable() != "PARAM_QUERY" {
		t.Errorf("its arguments are %+v", p)
	}
	if got := fmt.Sprint(r.Permissions.Network.Domains()); got != "[api.example.com example.org]" {
		t.Errorf("it may reach %s", got)
	}
	if found := plugins.Lint([]byte(text)); len(found) != 1 || found[0].Rule != "no-handler" {
		t.Errorf("it is said of it %+v", found)
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
	before := parse(t, `{"name":"P","description":"d","setup":"a","files":{"gone":"x\n","same":"s","long":"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"}}`)
	after := parse(t, `{"name":"P","description":"d","setup":"b","files":{"new":"y","same":"s","long":"1\n2\n3!\n4\n5\n6\n7\n8\n9\n10\n11!\n11.5\n12\n"}}`)
	diff, err := plugins.Diff(before, after)
	want := `--- recipe
+++ recipe
@@ -1,5 +1,5 @@
 {
   "description": "d",
   "name": "P",
-  "setup": "a"
+  "setup": "b"
 }
--- files/gone
+++ files/gone
@@ -1,1 +0,0 @@
-x
--- files/long
+++ files/long
@@ -1,6 +1,6 @@
 1
 2
-3
+3!
 4
 5
 6
@@ -8,5 +8,6 @@
 8
 9
 10
-11
+11!
+11.5
 12
--- files/new
+++ files/new
@@ -0,0 +1,1 @@
+y
\ No newline at end of file
`
	if err != nil || diff != want {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff, err := plugins.Diff(after, after); err != nil || diff != "" {
		t.Errorf("from itself it differs in %s, %v", diff, err)
	}
}

// TestRecipeOfTheApp reads a file as the desktop app's library writes it: nothing of it is lost.
func TestRecipeOfTheApp(t *testing.T) {
	r := parse(t, string(readFile(t, "testdata/desktop-app.json")))
	if got := fmt.Sprintln(r.Version, r.ModifiedAt, r.Metadata["mcp"], r.Metadata["created_by"], r.Permissions.Network, r.Events.Subscribe[0].Topic, r.Tools[0].Parameters["days"].MustBeGiven()); got !=
		"3 2026-05-31 12:00:00 +0000 UTC map[command:node server.js] agent api.example.com app.started false\n" {
		t.Errorf("it is %s", got)
	}
}
