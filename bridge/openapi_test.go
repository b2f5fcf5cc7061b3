package bridge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// document is docs/bridge.openapi.json.
type document struct {
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]struct {
			Schema struct{ Pattern string }
		}
		Responses map[string]answer
		Schemas   map[string]json.RawMessage
	}
}

type operation struct {
	RequestBody struct{ Content content }
	Responses   map[string]answer
}

type answer struct {
	Ref     string `json:"$ref"`
	Headers map[string]struct {
		Required bool
		Schema   json.RawMessage
	}
	Content content
}

type content map[string]struct{ Schema json.RawMessage }

func readDocument(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile("../docs/bridge.openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// check validates a value against one of the document's schemas.
func (d document) check(t *testing.T, schema json.RawMessage, value any) error {
	t.Helper()
	whole, err := json.Marshal(map[string]any{"$defs": d.Components.Schemas, "allOf": []json.RawMessage{schema}})
	if err != nil {
		t.Fatal(err)
	}
	// OpenAPI and JSON Schema keep definitions in different places.
	whole = []byte(strings.ReplaceAll(string(whole), "#/components/schemas/", "#/$defs/"))
	var s jsonschema.Schema
	if err := json.Unmarshal(whole, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return resolved.Validate(value)
}

func (d document) checkText(t *testing.T, schema json.RawMessage, text string) error {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	return d.check(t, schema, value)
}

// operation returns the document's operation for a request.
func (d document) operation(t *testing.T, r oneRoute) operation {
	t.Helper()
	for path, methods := range d.Paths {
		pattern := regexp.MustCompile(`^` + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, `[^/]+`) + `$`)
		if o, ok := methods[strings.ToLower(r.method)]; ok && pattern.MatchString(r.path) {
			return o
		}
	}
	t.Fatalf("the document has no %s %s", r.method, r.path)
	return operation{}
}

// TestOpenAPI compares the server's answers with the document: every operation, with every status,
// its headers and its body.
func TestOpenAPI(t *testing.T) {
	d := readDocument(t)
	full, stingy := newWorld(t), newWorld(t, func(o *bridge.Options) { o.Limits = always(config.BridgeLimits{}) })
	full.services.kept[fmt.Sprint(alice.Agent, "rss", "key")] = "v"
	fails := func(kind fault.Kind) func(oneRoute) response {
		return func(c oneRoute) response {
			full.services.fails(fault.New(kind, "do", "it", nil).Advise("Do something else."))
			defer full.services.fails(nil)
			return full.ask(c.of(full, alice))
		}
	}
	provoke := map[string]func(oneRoute) response{
		"200": func(c oneRoute) response { return full.ask(c.of(full, alice)) },
		"400": func(c oneRoute) response {
			r := c.of(full, alice)
			if r.body != "" {
				r.body = "[]"
			} else {
				r.headers = nil
			}
			return full.ask(r)
		},
		"401": func(c oneRoute) response {
			r := c.of(full, alice)
			r.token = ""
			return full.ask(r)
		},
		"403": fails(fault.Rejected),
		"404": fails(fault.NotFound),
		"413": func(c oneRoute) response {
			return full.raw(alice.UID, full.head(c.method, c.path)+fmt.Sprintf("Content-Length: %d\r\n\r\n", tooMuch), 1)[0]
		},
		"429": func(c oneRoute) response {
			if !strings.Contains(c.path, "sandbox-tool") {
				return stingy.ask(c.of(stingy, alice))
			}
			full.services.fails(fault.New(fault.Rejected, "call tool", "", &bridge.Limited{Why: "50 calls"}))
			defer full.services.fails(nil)
			return full.ask(c.of(full, alice))
		},
		"500": fails(fault.Execution),
		"503": fails(fault.Unavailable),
		"504": fails(fault.Timeout),
	}

	operations := 0
	for _, methods := range d.Paths {
		operations += len(methods)
	}
	if operations != len(everyRoute) {
		t.Errorf("the document has %d operations, and there are %d", operations, len(everyRoute))
	}
	for _, c := range everyRoute {
		o := d.operation(t, c)
		if schema := o.RequestBody.Content["application/json"].Schema; c.body != "" {
			if err := d.checkText(t, schema, c.body); err != nil {
				t.Errorf("%s %s: the request is %v", c.method, c.path, err)
			}
		}
		for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
			if provoke[status] == nil {
				t.Fatalf("the test cannot provoke %s %s: %s", c.method, c.path, status)
			}
			got, says := provoke[status](c), o.Responses[status]
			if name, ok := strings.CutPrefix(says.Ref, "#/components/responses/"); ok {
				says = d.Components.Responses[name]
			}
			if fmt.Sprint(got.status) != status {
				t.Errorf("%s %s: %v, want %s", c.method, c.path, got, status)
			}
			body, ok := says.Content[got.header.Get("Content-Type")]
			if !ok {
				t.Errorf("%s %s: %s is of type %s", c.method, c.path, status, got.header.Get("Content-Type"))
				continue
			}
			if err := d.checkText(t, body.Schema, got.body); err != nil {
				t.Errorf("%s %s: %s: %s: %v", c.method, c.path, status, got.body, err)
			}
			for name, h := range says.Headers {
				values := got.header.Values(name)
				if len(values) != 1 {
					t.Errorf("%s %s: %s has %d headers %s", c.method, c.path, status, len(values), name)
				} else if err := d.check(t, h.Schema, values[0]); err != nil {
					t.Errorf("%s %s: %s: %s: %v", c.method, c.path, status, name, err)
				}
			}
		}
		for _, kind := range fault.Kinds() {
			if got := fails(kind)(c); o.Responses[fmt.Sprint(got.status)].Ref == "" && kind != fault.NotFound && kind != fault.ToolNotFound {
				t.Errorf("%s %s: the document lacks %v", c.method, c.path, got)
			}
		}
	}
}

// TestOpenAPINames compares the patterns of names in the document with the parsers.
func TestOpenAPINames(t *testing.T) {
	d := readDocument(t)
	texts := []string{"", "a", "A", "_", "1", "-", ".", "a-b", "a.b", "a_b", "a:b", "a b", "a/b", "ä", "a\n", "\x00", "..", "a-", "-a", "rss.new_item", "x.y-z:1"}
	for _, n := range []int{63, 64, 65, 127, 128, 129} {
		texts = append(texts, strings.Repeat("x", n))
	}
	var emit struct {
		Properties struct{ Type struct{ Pattern string } }
	}
	if err := json.Unmarshal(d.Components.Schemas["Emit"], &emit); err != nil {
		t.Fatal(err)
	}
	parameter := func(name string) string { return d.Components.Parameters[name].Schema.Pattern }
	for what, c := range map[string]struct {
		pattern string
		parse   func(string) error
	}{
		"secret name": {parameter("SecretName"), func(s string) error { _, err := config.ParseSecretName(s); return err }},
		"config key":  {parameter("ConfigKey"), func(s string) error { _, err := bridge.ParseConfigKey(s); return err }},
		"plugin":      {parameter("Plugin"), func(s string) error { _, err := config.ParsePluginID(strings.ToLower(s)); return err }},
		"event type":  {emit.Properties.Type.Pattern, func(s string) error { _, err := bridge.ParseTopic(s); return err }},
	} {
		pattern := regexp.MustCompile(c.pattern)
		if c.pattern == "" {
			t.Errorf("the document says nothing of a %s", what)
		}
		for _, text := range texts {
			if matches, err := pattern.MatchString(text), c.parse(text); matches != (err == nil) {
				t.Errorf("%s %q: the document says %v, and it is %v", what, text, matches, err)
			}
		}
	}

	var failure struct {
		Properties struct{ Kind struct{ Enum []fault.Kind } }
	}
	if err := json.Unmarshal(d.Components.Schemas["Failure"], &failure); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(failure.Properties.Kind.Enum, fault.Kinds()) {
		t.Errorf("the document has the kinds %v, want %v", failure.Properties.Kind.Enum, fault.Kinds())
	}
}
