package tools

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"osaurus-sandbox/internal/printable"
)

// maxArguments bounds the arguments of a call to what the bridge accepts from scripts. The API
// accepts less.
const maxArguments = 8 << 20

// preflight checks arguments against a schema and corrects those with only one possible meaning:
// quoted numbers, a single value instead of a list, wrong capitals, and an empty text or zero for
// an optional argument. Numbers out of range are moved to the nearest allowed one with a warning.
// Other mistakes return a Failure with the argument's name and what it expects.
func preflight(s *jsonschema.Schema, raw json.RawMessage, warn func(format string, args ...any)) (map[string]any, error) {
	if len(raw) > maxArguments {
		return nil, wrongArgument("", fmt.Sprintf("at most %d bytes", maxArguments), "the arguments have %d bytes", len(raw))
	}
	given, err := object(raw)
	if err != nil {
		return nil, err
	}
	if inner, ok := given["properties"].(map[string]any); ok && len(given) == 1 && s.Properties["properties"] == nil {
		given = inner
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if s.Properties[name] == nil {
			return nil, wrongArgument(name, "one of: "+strings.Join(names(s), ", "), "there is no argument %s", quoted(name))
		}
	}
	out := map[string]any{}
	for _, name := range names(s) { // in a fixed order, so that equal mistakes get equal answers
		property := s.Properties[name]
		value, there := given[name]
		required := slices.Contains(s.Required, name)
		if there && !required && blank(property, value) {
			there = false
		}
		switch {
		case there:
			if out[name], err = coerce(name, property, value, warn); err != nil {
				return nil, err
			}
		case required:
			return nil, wrongArgument(name, expected(property), "the argument %s is missing", quoted(name))
		case property.Default != nil:
			if out[name], err = parse(string(property.Default)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// blank reports whether an optional argument has a value that means "none". Many models fill in
// every argument, with 0 for numbers that start at 1.
func blank(s *jsonschema.Schema, v any) bool {
	if v == nil || v == "" {
		return true
	}
	if s.Type != "integer" && s.Type != "number" || s.Minimum == nil || *s.Minimum <= 0 {
		return false
	}
	n, ok := asNumber(v, true)
	return ok && n == json.Number("0")
}

// names returns a schema's arguments, required ones first.
func names(s *jsonschema.Schema) []string {
	list := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// coerce converts a value to the schema's type if only one conversion makes sense.
func coerce(name string, s *jsonschema.Schema, v any, warn func(string, ...any)) (any, error) {
	ok := true
	switch s.Type {
	case "string":
		v, ok = asString(v)
	case "boolean":
		v, ok = asBool(v)
	case "integer", "number":
		v, ok = asNumber(v, s.Type == "integer")
	case "array":
		v, ok = asList(v)
	case "object":
		if text, is := v.(string); is {
			v, _ = parse(text)
		}
		_, ok = v.(map[string]any)
	}
	if !ok {
		return nil, wrongArgument(name, expected(s), "the argument %s is %s", quoted(name), kindOf(v))
	}
	switch v := v.(type) {
	case string:
		return text(name, s, v)
	case json.Number:
		return number(name, s, v, warn)
	case []any:
		return items(name, s, v, warn)
	}
	return v, nil
}

func asString(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return v, false
}

func asBool(v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case json.Number, string:
		switch strings.ToLower(strings.TrimSpace(fmt.Sprint(v))) {
		case "true", "yes", "1":
			return true, true
		case "false", "no", "0":
			return false, true
		}
	}
	return v, false
}

func asNumber(v any, whole bool) (any, bool) {
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		return v, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return v, false
	}
	switch {
	case !whole && json.Valid([]byte(text)):
		return json.Number(text), true // keeps all digits
	case !whole: // .5 and +5 are not valid JSON
		return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), true
	}
	const exact = 1 << 53 // larger integers are not exact in a float
	if f != math.Trunc(f) || math.Abs(f) > exact {
		return v, false
	}
	return json.Number(strconv.FormatInt(int64(f), 10)), true
}

// asList converts a value to a list. A single text becomes a list of one.
func asList(v any) (any, bool) {
	if text, is := v.(string); is {
		parsed, err := parse(text)
		if list, ok := parsed.([]any); ok && err == nil {
			return list, true
		}
		return []any{text}, true
	}
	_, ok := v.([]any)
	return v, ok
}

// items checks the length of a list and converts its items.
func items(name string, s *jsonschema.Schema, list []any, warn func(string, ...any)) (any, error) {
	if s.MinItems != nil && len(list) < *s.MinItems {
		return nil, wrongArgument(name, expected(s), "the argument %s is empty", quoted(name))
	}
	if s.MaxItems != nil && len(list) > *s.MaxItems {
		return nil, wrongArgument(name, expected(s), "the argument %s has %d items, more than %d", quoted(name), len(list), *s.MaxItems)
	}
	out := make([]any, len(list))
	for i, item := range list {
		var err error
		if out[i], err = coerce(fmt.Sprintf("%s[%d]", name, i), cmp.Or(s.Items, &jsonschema.Schema{}), item, warn); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// text checks a text against a schema. Capitals do not matter for enums.
func text(name string, s *jsonschema.Schema, v string) (any, error) {
	if s.MinLength != nil && len(v) < *s.MinLength {
		return nil, wrongArgument(name, expected(s), "the argument %s is empty", quoted(name))
	}
	if len(s.Enum) == 0 {
		return v, nil
	}
	trimmed := strings.TrimSpace(v)
	for _, exact := range []string{v, trimmed} { // first: choices may differ only in capitals
		if slices.Contains(s.Enum, any(exact)) {
			return exact, nil
		}
	}
	for _, choice := range s.Enum {
		if c, ok := choice.(string); ok && strings.EqualFold(c, trimmed) {
			return c, nil
		}
	}
	return nil, wrongArgument(name, expected(s), "the argument %s is %s", quoted(name), quoted(v))
}

// number checks a number against a schema. It moves a number out of range to the nearest allowed one,
// with a warning.
func number(name string, s *jsonschema.Schema, v json.Number, warn func(string, ...any)) (any, error) {
	f, _ := v.Float64() // asNumber has parsed it
	same := func(choice any) bool {
		c, err := strconv.ParseFloat(fmt.Sprint(choice), 64)
		return err == nil && c == f
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, same) {
		return nil, wrongArgument(name, expected(s), "the argument %s is %s", quoted(name), v)
	}
	bounded := f
	if s.Minimum != nil {
		bounded = max(bounded, *s.Minimum)
	}
	if s.Maximum != nil {
		bounded = min(bounded, *s.Maximum)
	}
	if bounded == f {
		return v, nil
	}
	to := json.Number(strconv.FormatFloat(bounded, 'f', -1, 64))
	warn("%s is %s, and %s was taken, which is the nearest that is allowed", name, v, to)
	return to, nil
}

// expected describes what a schema accepts.
func expected(s *jsonschema.Schema) string {
	var what string
	switch {
	case len(s.Enum) > 0:
		choices := make([]string, len(s.Enum))
		for i, c := range s.Enum {
			choices[i] = fmt.Sprint(c)
		}
		what = "one of: " + strings.Join(choices, ", ")
	case s.Type == "array" && s.Items != nil && s.Items.Type != "":
		what = "a list of " + s.Items.Type + "s"
	case s.Type == "integer":
		what = "a whole number"
	case s.Type != "":
		what = map[string]string{"array": "a list", "object": "an object"}[s.Type]
		what = cmp.Or(what, "a "+s.Type)
	default:
		what = "a value"
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		what += fmt.Sprintf(" from %v to %v", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		what += fmt.Sprintf(" from %v on", *s.Minimum)
	}
	if s.Description != "" {
		what += ": " + s.Description
	}
	return what
}

// kindOf describes a value that has the wrong type.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "the number " + v.String()
	case string:
		return quoted(v)
	case []any:
		return "a list"
	}
	return "an object"
}

// quoted quotes and shortens untrusted text.
func quoted(text string) string {
	const shown = 80 // enough to recognize it
	if len(text) > shown {
		return strconv.Quote(printable.First(text, shown)) + "…"
	}
	return strconv.Quote(text)
}
