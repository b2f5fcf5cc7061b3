package plugins_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// with returns a recipe with more members.
func with(members string) string {
	return `{"name": "P", "description": "A plugin", ` + members + `}`
}

// tool returns a recipe whose tool has more members.
func tool(members string) string {
	return with(`"tools": [{"id": "t", "description": "Does", "run": "true", ` + members + `}]`)
}

func repeated(format string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ", ")
}

// Invalid recipes are refused with the path of the fault. Attacks by recipes are among them.
func TestFaults(t *testing.T) {
	for _, tc := range []struct{ name, text, path string }{
		{"nothing", ``, "$"},
		{"a list", `[]`, "$"},
		{"half", `{"name": "P", "desc`, "$"},
		{"no UTF-8", with("\"author\": \"\xff\""), "$"},
		{"no name", `{"description": "d"}`, "$.name"},
		{"no description", `{"name": "P"}`, "$.description"},
		{"wrong type", with(`"setup": ["a"]`), "$.setup"},
		{"duplicate key", with(`"setup": "a", "setup": "b"`), "$.setup"},
		{"duplicate key in a file's folder", with(`"files": {"a": "1", "a": "2"}`), "$.files.a"},
		{"duplicate key in metadata", with(`"icon": "a", "metadata": {"icon": "b"}`), "$.icon"},
		{"deep", with(`"metadata": {"a": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`), "$.metadata.a" + strings.Repeat("[0]", 30)},
		{"10 MB", with(`"setup": "` + strings.Repeat("a", 10<<20) + `"`), "$"},
		{"too many values", with(`"metadata": {"a": [` + repeated(`%d`, 60_000) + `]}`), "$.metadata.a[49995]"},

		{"name with a slash", `{"name": "../../etc", "description": "d"}`, "$.name"},
		{"name with an option", `{"name": "-rf", "description": "d"}`, "$.name"},
		{"name of foreign letters", `{"name": "\u212a", "description": "d"}`, "$.name"}, // the Kelvin sign, whose small letter is k
		{"name of the sandbox", `{"name": "sandbox", "description": "d"}`, "$.name"},

		{"description for a terminal", `{"name": "P", "description": "d\u001b[2J"}`, "$.description"},

		{"default for a terminal", tool(`"parameters": {"a": {"type": "string", "default": "\u001b[8m"}}`), "$.tools[0].parameters.a.default"},
		{"what only models read, in tags", `{"name": "P", "description": "d\udb40\udc69\udb40\udc67"}`, "$.description"},
		{"what only models read, in selectors", tool(`"parameters": {"a": {"type": "string", "description": "d\udb40\udd00"}}`), "$.tools[0].parameters.a.description"},
		{"what reads backwards", with(`"author": "\u202ebob"`), "$.author"},
		{"path that reads backwards", with(`"files": {"a\u202efdp.sh": ""}`), `$.files["a\u202efdp.sh"]`},

		{"path that leads out", with(`"files": {"../x": ""}`), `$.files["../x"]`},
		{"path with NUL", with(`"files": {"a\u0000b": ""}`), `$.files["a\x00b"]`},
		{"command with NUL", with(`"setup": "a\u0000b"`), "$.setup"},
		{"wildcard", with(`"permissions": {"network": "*.example.com"}`), "$.permissions.network"},
		{"absolute path", with(`"files": {"/etc/passwd": ""}`), `$.files["/etc/passwd"]`},
		{"file and folder", with(`"files": {"a": "", "a/b": ""}`), `$.files["a/b"]`},
		{"files that differ in capitals", with(`"files": {"A": "", "a": ""}`), "$.files.a"},

		{"option for a package", with(`"dependencies": ["--allow-untrusted"]`), "$.dependencies[0]"},
		{"address for a package", with(`"dependencies": ["http://example.com/x.apk"]`), "$.dependencies[0]"},

		{"tool without a name", with(`"tools": [{"description": "d", "run": "true"}]`), "$.tools[0].id"},
		{"tool that is no object", with(`"tools": [{"id": "t", "description": "d", "run": "true"}, 7]`), "$.tools[1]"},
		{"tool named as another", with(`"tools": [{"id": "t", "description": "d", "run": "true"}, {"id": "t", "description": "d", "run": "true"}]`), "$.tools[1].id"},
		{"tool of the sandbox", `{"name": "share", "description": "d", "tools": [{"id": "artifact", "description": "d", "run": "true"}]}`, "$.tools[0].id"},
		{"endless timeout", tool(`"timeout": 100000`), "$.tools[0].timeout"},
		{"timeout in pieces", tool(`"timeout": 1.5`), "$.tools[0].timeout"},
		{"tool that is a book", tool(`"parameters": {` + repeated(`"a%d": {"type": "string", "description": "`+strings.Repeat("x", 4000)+`"}`, 20) + `}`), "$.tools[0].parameters"},
		{"argument with a dash", tool(`"parameters": {"output-format": {"type": "string"}}`), "$.tools[0].parameters.output-format"},
		{"arguments that are one", tool(`"parameters": {"a": {"type": "string"}, "A": {"type": "string"}}`), "$.tools[0].parameters.a"},
		{"default of another type", tool(`"parameters": {"a": {"type": "integer", "default": "many"}}`), "$.tools[0].parameters.a.default"},
		{"default that is no choice", tool(`"parameters": {"a": {"type": "string", "default": "c", "enum": ["a", "b"]}}`), "$.tools[0].parameters.a.default"},

		{"secret that is none", with(`"secrets": ["A KEY"]`), "$.secrets[0]"},
		{"secret that changes programs", with(`"secrets": ["LD_PRELOAD"]`), "$.secrets[0]"},
		{"address for a host", with(`"permissions": {"network": "10.0.0.1"}`), "$.permissions.network"},
		{"N20 all of a public suffix", with(`"permissions": {"network": "*.com"}`), "$.permissions.network"},
		{"N20 500 hosts", with(`"permissions": {"network": "` + strings.ReplaceAll(repeated(`h%d.example.com`, 500), " ", "") + `"}`), "$.permissions.network"},
		{"daemon that says who it is", with(`"daemon": {"command": "true", "env": {"OSAURUS_PLUGIN": "other"}}`), "$.daemon.env.OSAURUS_PLUGIN"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := plugins.Parse([]byte(tc.text))
			if err == nil || fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" || !strings.Contains(err.Error(), tc.path+": ") || !reflect.ValueOf(r).IsZero() {
				t.Fatalf("%.300s: %v, with the advice %q", tc.text, err, fault.AdviceOf(err))
			}
			if first := plugins.Lint([]byte(tc.text))[0]; first.Path != tc.path || first.Line == 0 || first.Fix == "" {
				t.Errorf("the first finding is %+v, not of %s", first, tc.path)
			}
		})
	}
}

// Hidden characters are refused, but not those that scripts and emoji need.
func TestHidden(t *testing.T) {
	faults := func(r plugins.Recipe) []plugins.Finding {
		return slices.DeleteFunc(plugins.Validate(r), func(f plugins.Finding) bool { return f.Severity != plugins.Fault })
	}
	for name, text := range map[string]string{
		"zero width space": "a\u200bb", "soft hyphen": "a\u00adb", "grapheme joiner": "a\u034fb", "Hangul fillers": "\u115f\u1160", "Hangul filler": "\u3164", "half filler": "\uffa0",
		"Mongolian selectors": "\u180b", "Mongolian separator": "\u180e", "old controls": "\u206a", "annotation": "\ufff9a\ufffb", "shorthand": "\U0001bca0", "music": "\U0001d173",
		"word joiner": "a\u2060b", "invisible plus": "a\u2064b", "byte order mark": "a\ufeffb", "line separator": "a\u2028b", "paragraph separator": "a\u2029b",
		"right to left": "a\u202eb", "isolate": "a\u2066b", "mark": "a\u200fb", "tags": "a\U000e0041", "a byte": "a\ufe01", "another byte": "a\U000e0100",
		"reserved": "a\u2065b", "bits of joiners": "a\u200d\u200c\u200db", "bits of selectors": "\u2764\ufe0f\ufe0e", "joiner before all": "\u200da", "joiner after space": "a \u200cb", "selector alone": "\ufe0f",
		"selector after joiner": "a\u200d\ufe0f",
	} {
		t.Run(name, func(t *testing.T) {
			for where, recipe := range map[string]plugins.Recipe{
				"$.description": {Name: "P", Description: "d" + "\n" + text},
				"$.author":      {Name: "P", Description: "d", Author: text},
				"$.files":       {Name: "P", Description: "d", Files: map[plugins.FilePath]string{plugins.FilePath("x/" + text): ""}},
			} {
				findings := faults(recipe)
				if len(findings) != 1 || !strings.HasPrefix(findings[0].Path, where) || !strings.Contains(findings[0].Text, "hidden") {
					t.Errorf("%s with %+q: %v", where, text, findings)
				}
			}
		})
	}
	for name, text := range map[string]string{
		"picture": "\u2764\ufe0f", "text": "\u2764\ufe0e", "key": "1\ufe0f\u20e3", "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467", "rainbow": "\U0001f3f3\ufe0f\u200d\U0001f308",
		"skin": "\U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f468", "flag": "\U0001f1e9\U0001f1ea", "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
		"Sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd3", "Hindi": "\u0915\u094d\u200d\u0937", "number sign": "\u0600\u0661", "accents": "e\u0301", "wide space": "\u4f60\u3000\u597d",
	} {
		if findings := faults(plugins.Recipe{Name: "P", Description: text, Author: text, Files: map[plugins.FilePath]string{plugins.FilePath(text): ""}}); len(findings) > 0 {
			t.Errorf("%s, %+q: %v", name, text, findings)
		}
	}
}

// Doubtful recipes are accepted with a warning.
func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		text string
		want string // rule and path of each, with commas between them
	}{
		{tool(`"timeout": 5`), ""},
		{with(`"author": "a"`), "nothing $.tools"},
		{tool(`"icon": "x"`), "unknown-key $.tools[0].icon"},
		{tool(`"parameters": {"a": {"type": "string", "default": "", "required": true}}`), "default $.tools[0].parameters.a.required"},
		{with(`"tools": [{"id": "t", "description": "d", "run": "cat $PARAM_A", "parameters": {"a": {"type": "string"}}}]`), "unquoted-param $.tools[0].run"},
		{with(`"tools": [{"id": "t", "description": "d", "run": "cat \"$PARAM_B\""}]`), "unknown-param $.tools[0].run"},
		{with(`"tools": [{"id": "t", "description": "d", "run": "cat \"unfinished"}]`), "shell-syntax $.tools[0].run"},
		{with(`"tools": [{"id": "t", "description": "d", "run": "curl https://example.com/"}]`), "network $.tools[0].run"},
		{with(`"permissions": {"network": "example.com"}, "tools": [{"id": "t", "description": "d", "run": "curl https://example.com/"}]`), ""},
		{with(`"permissions": {"network": "outbound"}, "tools": [{"id": "t", "description": "d", "run": "curl https://example.com/"}]`), ""},
		{with(`"events": {"subscribe": ["mail"]}`), "no-handler $.events.subscribe[0]"},
		{with(`"events": {"subscribe": [{"topic": "mail.*", "run": "cat"}]}`), ""},
		{`{"name": "P.1", "description": "d", "tools": [{"id": "t", "description": "d", "run": "true"}]}`, "tool-name $.tools[0].id"},
		{with(`"secrets": ["A", "A"], "daemon": {"command": "true"}`), "duplicate $.secrets[1]"},
		{with(`"source": "somewhere", "daemon": {"command": "true"}`), "source $.source"},
	} {
		if _, err := plugins.Parse([]byte(tc.text)); err != nil {
			t.Errorf("%s: %v", tc.text, err)
		}
		var got []string
		for _, f := range plugins.Lint([]byte(tc.text)) {
			got = append(got, string(f.Rule)+" "+f.Path)
		}
		if strings.Join(got, ",") != tc.want {
			t.Errorf("%s: warns of %q, not of %q", tc.text, got, tc.want)
		}
	}
}

// The example of the format's page splices an argument into code.
func TestPageIsWarnedOf(t *testing.T) {
	found := plugins.Lint(readFile(t, "testdata/python-data-tools.json"))
	if len(found) != 1 || found[0].Rule != "param-in-code" || found[0].Path != "$.tools[0].run" || found[0].Line != 18 || !strings.Contains(found[0].Fix, `os.environ["PARAM_FILE"]`) {
		t.Errorf("it is said of it %+v", found)
	}
}

// The schema accepts the examples, and refuses only what Parse refuses.
func TestSchema(t *testing.T) {
	var schema jsonschema.Schema
	if err := schema.UnmarshalJSON(plugins.Schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recipes to try: %v", err)
	}
	for _, file := range files {
		text := readFile(t, file)
		if _, err := plugins.Parse(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := resolved.Validate(value(t, string(text))); err != nil {
			t.Errorf("the schema refuses %s: %v", file, err)
		}
	}
	for _, text := range []string{
		`{"name": "P"}`, `{"name": "../x", "description": "d"}`, with(`"tools": [{"id": "t"}]`), tool(`"timeout": 601`), tool(`"output": "html"`),
		tool(`"parameters": {"a-b": {"type": "string"}}`), tool(`"parameters": {"a": {"type": "file"}}`), with(`"dependencies": ["a b"]`), with(`"secrets": ["a b"]`),
		with(`"daemon": {}`), with(`"events": {"subscribe": [{}]}`), with(`"files": {"/a": ""}`), with(`"permissions": {"inference": 1}`),
	} {
		if resolved.Validate(value(t, text)) == nil {
			t.Errorf("the schema takes %s", text)
		}
		if _, err := plugins.Parse([]byte(text)); err == nil {
			t.Errorf("Parse takes %s", text)
		}
	}
}

// Accepted recipes are encoded and read again as the same.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(tool(`"parameters": {"a": {"type": "number", "default": 1e3, "enum": [1, "2", true]}}, "x": [null, {"b": 0.10}]`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, finding := range plugins.Lint(text) {
			if finding.Line < 1 || finding.Column < 1 || finding.Fix == "" || finding.Path == "" {
				t.Errorf("%q: %+v", text, finding)
			}
		}
		r, err := plugins.Parse(text)
		if err != nil {
			return
		}
		once, err := r.Encode()
		if err != nil {
			t.Fatalf("%q is taken, and cannot be written: %v", text, err)
		}
		again, err := plugins.Parse(once)
		if err != nil {
			t.Fatalf("%q is written as %s, which is refused: %v", text, once, err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q is written as\n%s, then\n%s", text, once, twice)
		}
	})
}
