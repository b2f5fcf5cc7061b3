package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaOf returns the schema of a struct. A field is required unless its json tag has omitempty
// or omitzero. The jsonschema tag is its description, and the limit tag has further rules:
// "min=1,max=500,default=100,enum=poll|wait". It panics on an invalid tag.
func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("tools: no schema for %T: %v", *new(T), err))
	}
	limit(s, reflect.TypeFor[T]())
	return s
}

// open allows additional properties, so that clients accept results of a later release.
func open(s *jsonschema.Schema) *jsonschema.Schema {
	s.AdditionalProperties = nil
	for _, property := range s.Properties {
		open(property)
	}
	if s.Items != nil {
		open(s.Items)
	}
	return s
}

// limit applies the limit tags of a struct to its schema.
func limit(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			s = s.Items
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || s == nil {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := s.Properties[name]
		if property == nil {
			continue
		}
		if property.Type == "" && len(property.Types) == 2 { // a list or map that may be null; the schema need not say so
			property.Type, property.Types = property.Types[1], nil
		}
		limit(property, f.Type)
		for rule := range strings.SplitSeq(f.Tag.Get("limit"), ",") {
			if key, value, ok := strings.Cut(rule, "="); ok {
				impose(property, key, value)
			}
		}
	}
}

// impose applies one rule of a limit tag.
func impose(s *jsonschema.Schema, key, value string) {
	number := func() float64 {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			panic("tools: limit " + key + ": " + err.Error())
		}
		return n
	}
	switch key {
	case "min":
		s.Minimum = jsonschema.Ptr(number())
	case "max":
		s.Maximum = jsonschema.Ptr(number())
	case "minlen":
		s.MinLength = jsonschema.Ptr(int(number()))
	case "minitems":
		s.MinItems = jsonschema.Ptr(int(number()))
	case "maxitems":
		s.MaxItems = jsonschema.Ptr(int(number()))
	case "enum":
		for choice := range strings.SplitSeq(value, "|") {
			s.Enum = append(s.Enum, choice)
		}
	case "default":
		text := json.RawMessage(value)
		if s.Type == "string" {
			text, _ = json.Marshal(value) // strings always marshal
		}
		s.Default = text
	default:
		panic("tools: no such limit: " + key)
	}
}
