package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"osaurus-sandbox/internal/fault"
)

type sample struct {
	Path    string            `json:"path" jsonschema:"a file" limit:"minlen=1"`
	Content string            `json:"content"`
	Lines   int               `json:"lines,omitempty" limit:"min=1,max=500,default=100"`
	Ratio   float64           `json:"ratio,omitempty"`
	Force   bool              `json:"force,omitempty"`
	Target  string            `json:"target,omitempty" limit:"enum=content|files,default=content"`
	Names   []string          `json:"names,omitempty" limit:"minitems=1,maxitems=3"`
	Env     map[string]string `json:"env,omitempty"`
}

func TestPreflight(t *testing.T) {
	const usual = `"content":"c","lines":100,"path":"p","target":"content"`
	for _, tc := range []struct {
		name, in, out string // out is the JSON, or "!" and a part of the message
		field         string
		warnings      int
	}{
		{"as it should be", `{"path":"p","content":"c"}`, `{` + usual + `}`, "", 0},
		{"an object in a string", `"{\"path\":\"p\",\"content\":\"c\"}"`, `{` + usual + `}`, "", 0},
		{"wrapped in properties", `{"properties":{"path":"p","content":"c"}}`, `{` + usual + `}`, "", 0},
		{"an empty text that is required", `{"path":"p","content":""}`, `{"content":"","lines":100,"path":"p","target":"content"}`, "", 0},
		{"empty texts and nulls for what need not be there", `{"path":"p","content":"c","lines":"","target":null,"names":""}`, `{` + usual + `}`, "", 0},
		{"numbers in quotes", `{"path":"p","content":"c","lines":"15","ratio":"0.5"}`, `{"content":"c","lines":15,"path":"p","ratio":0.5,"target":"content"}`, "", 0},
		{"truth in words", `{"path":"p","content":"c","force":"Yes"}`, `{"content":"c","force":true,"lines":100,"path":"p","target":"content"}`, "", 0},
		{"a list of one", `{"path":"p","content":"c","names":"a"}`, `{"content":"c","lines":100,"names":["a"],"path":"p","target":"content"}`, "", 0},
		{"a list in a string", `{"path":"p","content":"c","names":"[\"a\",\"b\"]"}`, `{"content":"c","lines":100,"names":["a","b"],"path":"p","target":"content"}`, "", 0},
		{"an object in a string in an argument", `{"path":"p","content":"c","env":"{\"A\":\"1\"}"}`, `{"content":"c","env":{"A":"1"},"lines":100,"path":"p","target":"content"}`, "", 0},
		{"capitals in a choice", `{"path":"p","content":"c","target":"FILES"}`, `{"content":"c","lines":100,"path":"p","target":"files"}`, "", 0},
		{"zero for what need not be there and begins at one", `{"path":"p","content":"c","lines":0,"ratio":0}`, `{"content":"c","lines":100,"path":"p","ratio":0,"target":"content"}`, "", 0},
		{"numbers in quotes that JSON has otherwise", `{"path":"p","content":"c","lines":"+5","ratio":".5"}`, `{"content":"c","lines":5,"path":"p","ratio":0.5,"target":"content"}`, "", 0},
		{"digits in quotes", `{"path":"p","content":"c","ratio":"0.10000000000000000001"}`, `{"content":"c","lines":100,"path":"p","ratio":0.10000000000000000001,"target":"content"}`, "", 0},
		{"a number below the range", `{"path":"p","content":"c","lines":-1}`, `{"content":"c","lines":1,"path":"p","target":"content"}`, "", 1},
		{"a number out of range", `{"path":"p","content":"c","lines":9000}`, `{"content":"c","lines":500,"path":"p","target":"content"}`, "", 1},

		{"the first of what is missing", `{"lines":"many"}`, `!"path" is missing`, "path", 0},
		{"empty", `{"path":"","content":"c"}`, `!"path" is empty`, "path", 0},
		{"of another type", `{"path":["p"],"content":"c"}`, `!"path" is a list`, "path", 0},
		{"not a number", `{"path":"p","content":"c","lines":"many"}`, `!"lines" is "many"`, "lines", 0},
		{"a number without end", `{"path":"p","content":"c","lines":1e999}`, `!"lines" is the number`, "lines", 0},
		{"no such choice", `{"path":"p","content":"c","target":"both"}`, `!"target" is "both"`, "target", 0},
		{"unknown", `{"path":"p","content":"c","file":"p"}`, `!no argument "file"`, "file", 0},
		{"too many", `{"path":"p","content":"c","names":["a","b","c","d"]}`, `!has 4 items`, "names", 0},
		{"an item of another type", `{"path":"p","content":"c","names":["a",{}]}`, `!"names[1]" is an object`, "names[1]", 0},
		{"no object", `[1]`, `!not a JSON object`, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var warnings []string
			out, err := preflight(schemaOf[sample](), json.RawMessage(tc.in), func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) })
			if part, bad := strings.CutPrefix(tc.out, "!"); bad {
				f := failureOf(err)
				if err == nil || f.Kind != fault.InvalidArgs || !strings.Contains(f.Message, part) || tc.field != "" && f.Field != tc.field || f.Expected == "" {
					t.Errorf("%+v, want %q of %q", f, part, tc.field)
				}
				return
			}
			got, failed := json.Marshal(out)
			if err != nil || failed != nil || string(got) != tc.out || len(warnings) != tc.warnings {
				t.Errorf("%v, %q\n got %s\nwant %s", err, warnings, got, tc.out)
			}
		})
	}
}

// Choices may differ only in capitals. Zero for a required argument that begins at one is moved into
// range.
func TestPreflightOfPlugins(t *testing.T) {
	schema := &jsonschema.Schema{
		Type: "object", Required: []string{"count"},
		Properties: map[string]*jsonschema.Schema{
			"unit":  {Type: "string", Enum: []any{"M", "m", "km"}},
			"count": {Type: "integer", Minimum: jsonschema.Ptr(1.0)},
		},
	}
	for _, tc := range []struct {
		in, out  string
		warnings int
	}{
		{`{"count":1,"unit":"M"}`, `{"count":1,"unit":"M"}`, 0},
		{`{"count":1,"unit":"m"}`, `{"count":1,"unit":"m"}`, 0},
		{`{"count":1,"unit":" m "}`, `{"count":1,"unit":"m"}`, 0},
		{`{"count":1,"unit":"KM"}`, `{"count":1,"unit":"km"}`, 0},
		{`{"count":0}`, `{"count":1}`, 1},
	} {
		warnings := 0
		out, err := preflight(schema, json.RawMessage(tc.in), func(string, ...any) { warnings++ })
		got, failed := json.Marshal(out)
		if err != nil || failed != nil || string(got) != tc.out || warnings != tc.warnings {
			t.Errorf("%s: %v, %v, %d warnings, got %s, want %s", tc.in, err, failed, warnings, got, tc.out)
		}
	}
}

// The result matches the schema.
func FuzzPreflight(f *testing.F) {
	for _, seed := range []string{
		`{"path":"p","content":"c","lines":"15","names":"[\"a\"]"}`, `{"properties":{"path":1}}`, `"{}"`, `{"env":"{}","ratio":1e400}`, `[[[[`, "\xff",
	} {
		f.Add(seed)
	}
	schema := schemaOf[sample]()
	resolved, err := schema.Resolve(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out, err := preflight(schema, json.RawMessage(in), func(string, ...any) {})
		if err != nil {
			if failure := failureOf(err); failure.Kind != fault.InvalidArgs || failure.Expected == "" {
				t.Errorf("%q: %+v", in, failure)
			}
			return
		}
		raw, err := json.Marshal(out)
		if err != nil {
			t.Fatalf("%q: %s: %v", in, out, err)
		}
		if err := json.Unmarshal(raw, new(sample)); err != nil {
			t.Errorf("%q: %s: %v", in, out, err)
		}
		var generic map[string]any // for the validator
		if err := json.Unmarshal(raw, &generic); err != nil {
			t.Fatalf("%q: %s: %v", in, out, err)
		}
		delete(generic, "env") // preflight does not check its values
		if err := resolved.Validate(generic); err != nil {
			t.Errorf("%q: %s: %v", in, out, err)
		}
	})
}
