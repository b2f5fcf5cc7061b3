package plugins

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"osaurus-sandbox/config"
)

var (
	// The characters are those that models' interfaces allow.
	toolText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	// A parameter's name is part of a variable's name.
	paramText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

func (v *validator) tools(r Recipe) {
	const path = "$.tools"
	if !v.count(path, len(r.Tools), MaxTools) {
		return
	}
	id, _ := r.ID() // errors were reported before
	seen := map[ToolID]bool{}
	for i, t := range r.Tools {
		at := item(path, i)
		v.toolName(below(at, "id"), id, t.ID)
		v.refuse(seen[t.ID], below(at, "id"), "duplicate-tool", "Give each tool a name of its own.", "there is a tool %q already", brief(string(t.ID)))
		seen[t.ID] = true
		v.description(below(at, "description"), t.Description, "what the tool does, and when to use it")
		v.needCommand(below(at, "run"), t.Run)
		v.timeout(below(at, "timeout"), t.Timeout)
		v.refuse(t.Output != Text && t.Output != JSON, below(at, "output"), "output", `Write "text" or "json".`, "%q is not an output format", brief(string(t.Output)))
		v.params(below(at, "parameters"), t.Parameters)
		n := t.textSize()
		v.refuse(n > MaxToolText, below(at, "parameters"), "size", "Shorten the descriptions, or offer fewer choices.", "models would read %d bytes of it, more than %d", n, MaxToolText)
	}
}

// textSize returns how much text of the tool models read.
func (t Tool) textSize() int {
	n := len(t.Description)
	for name, p := range t.Parameters {
		n += len(name) + len(p.Description)
		for _, choice := range p.Enum {
			n += len(choice)
		}
		if p.Default != nil {
			n += len(*p.Default)
		}
	}
	return n
}

func (v *validator) toolName(path string, plugin config.PluginID, id ToolID) {
	name := ToolName(plugin, id)
	switch {
	case id == "":
		v.refuse(true, path, "required", "Give the tool a short name: analyze_csv.", "is missing")
		return
	case !toolText.MatchString(string(id)):
		v.refuse(true, path, "tool-id", "Use 1 to 64 letters, digits, dashes and underscores, and begin with a letter or digit.", "%q is not the name of a tool", brief(string(id)))
		return
	}
	v.refuse(slices.Contains(ownTools(), name), path, "tool-id", "Choose another: the sandbox has a tool of this name.", "%s is reserved", name)
	v.refuse(len(name) > MaxToolName, path, "tool-id", "Shorten the plugin's name or the tool's.", "%s has %d characters, more than %d", name, len(name), MaxToolName)
	v.warn(len(name) > usualToolName || strings.ContainsRune(name, '.'), path, "tool-name", "Shorten the plugin's name or the tool's, and use no dots.",
		"%s: some models take only names of at most %d letters, digits, dashes and underscores", name, usualToolName)
}

func (v *validator) params(path string, params map[ParamName]Param) {
	if !v.count(path, len(params), MaxParams) {
		return
	}
	variables := map[string]ParamName{}
	for _, name := range sortedKeys(params) {
		at := below(path, string(name))
		v.refuse(!paramText.MatchString(string(name)), at, "parameter", "Use at most 64 letters, digits and underscores, and do not begin with a digit: output_format.",
			"%q cannot be part of a variable's name", brief(string(name)))
		other, taken := variables[name.Variable()]
		v.refuse(taken, at, "parameter", "Rename one of the two.", "it and %s would both be %s", other, name.Variable())
		variables[name.Variable()] = name
		v.param(at, params[name])
	}
}

func (v *validator) param(path string, p Param) {
	known := slices.Contains([]ParamType{String, Number, Integer, Boolean, Array, Object}, p.Type)
	v.refuse(!known, below(path, "type"), "parameter-type", "Write string, number, integer, boolean, array or object.", "%q is not a type", brief(string(p.Type)))
	if !known {
		return
	}
	v.size(below(path, "description"), len(p.Description), MaxDescription, "Shorten it.")
	v.prose(below(path, "description"), p.Description)
	if v.count(below(path, "enum"), len(p.Enum), MaxList) {
		for i, choice := range p.Enum {
			v.value(item(below(path, "enum"), i), p.Type, string(choice))
		}
	}
	if p.Default == nil {
		return
	}
	v.value(below(path, "default"), p.Type, string(*p.Default))
	v.refuse(len(p.Enum) > 0 && !slices.Contains(p.Enum, *p.Default), below(path, "default"), "default",
		"Take one of the choices, or add it to them.", "%q is not among the choices", brief(string(*p.Default)))
	v.warn(p.Required != nil && *p.Required, below(path, "required"), "default", "Remove the default, or required.", "a required argument never has its default")
}

// value checks the text of a value.
func (v *validator) value(path string, t ParamType, text string) {
	v.prose(path, text)
	v.size(path, len(text), MaxCommand, "Shorten it.")
	v.refuse(!t.holds(text), path, "value", "Write a value of the argument's type.", "%q does not have the type %s", brief(text), t)
}

// holds reports whether a text is a value of the type.
func (t ParamType) holds(text string) bool {
	switch t {
	case String:
		return true
	case Boolean:
		return text == "true" || text == "false"
	case Integer:
		_, err := strconv.ParseInt(text, 10, 64)
		return err == nil
	case Number:
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && json.Valid([]byte(text))
	}
	begin := map[ParamType]string{Array: "[", Object: "{"}[t]
	return json.Valid([]byte(text)) && strings.HasPrefix(strings.TrimSpace(text), begin)
}
