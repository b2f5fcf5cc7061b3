package plugins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// extraKey is the JSON name of the Extra fields. Encoded recipes have the extra keys themselves.
const extraKey = "+"

// decode makes a recipe of a JSON value, as far as it can, and lists wrong types and unknown keys. Unknown keys of the
// recipe go into its metadata, where the desktop app keeps them; those of its parts go into their Extra.
func decode(v any) (Recipe, []Finding) {
	d := &decoder{}
	if _, ok := v.(map[string]any); !ok {
		d.fault(root, "type", "a recipe is an object {…}", "Begin with: osaurus-sandbox plugin init")
		return Recipe{}, d.findings
	}
	object := d.fit(recipeSchema(), v, root).(map[string]any)
	if unknown, ok := object[extraKey].(map[string]any); ok {
		metadata, _ := object["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			object["metadata"] = metadata
		}
		for _, key := range sortedKeys(unknown) {
			if _, taken := metadata[key]; taken {
				d.fault(below(root, key), "duplicate-key", "unknown keys are kept in metadata, which already has this one", "Keep one of the two.")
			}
			metadata[key] = unknown[key]
		}
		delete(object, extraKey)
	}
	r, err := convert[plainRecipe](object)
	if err != nil {
		d.fault(root, "type", err.Error(), "Compare it with: osaurus-sandbox plugin schema")
	}
	for i := range r.Tools {
		if r.Tools[i].Output == "text" { // the default
			r.Tools[i].Output = Text
		}
	}
	r.Permissions.Network = canonicalNetwork(string(r.Permissions.Network))
	r.ModifiedAt = r.ModifiedAt.UTC()
	return Recipe(r), d.findings
}

// plainRecipe is a Recipe that encoding/json handles field by field.
type plainRecipe Recipe

// convert encodes a value as JSON and decodes it into a T, with json.Number for numbers of no known type.
func convert[T any](v any) (T, error) {
	var out T
	text, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return out, dec.Decode(&out)
}

type decoder struct{ findings []Finding }

func (d *decoder) fault(path string, rule Rule, text, fix string) {
	d.findings = append(d.findings, Finding{Severity: Fault, Rule: rule, Path: path, Text: text, Fix: fix})
}

// fit returns the value in the form in which the recipe's Go types decode it, or nil if it does not have the
// schema's type. Only types are checked here; Validate does the rest.
func (d *decoder) fit(s schema, v any, path string) any {
	if choices, ok := s["anyOf"].([]schema); ok {
		return d.fitEither(choices[0], choices[1], v, path)
	}
	want := "a text in quotes"
	switch s["type"] {
	case "object":
		if object, ok := v.(map[string]any); ok {
			return d.fitObject(s, object, path)
		}
		want = "an object"
	case "array":
		if list, ok := v.([]any); ok {
			out := make([]any, len(list))
			for i, v := range list {
				out[i] = d.fit(s["items"].(schema), v, item(path, i))
			}
			return out
		}
		want = "a list […]"
	case "boolean":
		if _, ok := v.(bool); ok {
			return v
		}
		want = "true or false"
	case "integer":
		number, _ := v.(json.Number)
		if n, err := strconv.ParseInt(string(number), 10, 32); err == nil && n > 0 {
			return v
		}
		want = fmt.Sprintf("a whole number of seconds from 1 to %d", MaxTimeout/time.Second)
	case scalarType{}:
		switch v := v.(type) {
		case string:
			return v
		case json.Number:
			return string(v)
		case bool:
			return strconv.FormatBool(v)
		}
		want = "a text, a number, true or false"
	default:
		if text, ok := v.(string); ok {
			if _, err := time.Parse(time.RFC3339Nano, text); err != nil && s["format"] == "date-time" {
				d.fault(path, "type", "is not a time", `Remove it, or write a time as "2026-05-31T12:00:00Z".`)
				return nil
			}
			return v
		}
	}
	d.fault(path, "type", fmt.Sprintf("is %s, not %s", kind(v), want), "Write "+want+" there.")
	return nil
}

// fitEither handles the two parts of a recipe that can be written in two ways: a subscription is an object or
// only a topic, a network is a text or a list of hosts.
func (d *decoder) fitEither(text, other schema, v any, path string) any {
	_, isText := v.(string)
	if other["type"] == "object" {
		if isText {
			v = map[string]any{"topic": v}
		}
		return d.fit(other, v, path)
	}
	if _, isList := v.([]any); !isList {
		return d.fit(text, v, path)
	}
	var hosts []string
	for _, host := range d.fit(other, v, path).([]any) {
		if host, ok := host.(string); ok {
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, ",")
}

func (d *decoder) fitObject(s schema, object map[string]any, path string) any {
	known, _ := s["properties"].(map[string]schema)
	rest, _ := s["additionalProperties"].(schema)
	out, extra := map[string]any{}, map[string]any{}
	for _, key := range sortedKeys(object) {
		v := object[key]
		switch of, ok := known[key]; {
		case ok:
			if v != nil && !isEmpty(of, v) {
				out[key] = d.fit(of, v, below(path, key))
			}
		case rest != nil:
			out[key] = d.fit(rest, v, below(path, key))
		case known == nil: // metadata
			out[key] = v
		default:
			extra[key] = v
			if path != root { // those go into the metadata
				d.findings = append(d.findings, Finding{Severity: Warning, Rule: "unknown-key", Path: below(path, key),
					Text: "is kept, and means nothing here", Fix: "See that it is spelled right: osaurus-sandbox plugin schema"})
			}
		}
	}
	if len(extra) > 0 {
		out[extraKey] = extra
	}
	return out
}

// isEmpty reports an empty list or map, which means the same as none.
func isEmpty(s schema, v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0 && s["type"] == "array"
	case map[string]any:
		return len(v) == 0 && s["type"] == "object" && s["properties"] == nil
	}
	return false
}

// kind describes a value to a person.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return "a text"
	case json.Number:
		if f, err := v.Float64(); err != nil || math.Trunc(f) != f {
			return "the number " + brief(string(v))
		}
		return "the whole number " + brief(string(v))
	case []any:
		return "a list"
	}
	return "an object"
}
