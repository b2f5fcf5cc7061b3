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
		if seen[t.ID] {
			v.fault(below(at, "id"), "duplicate-tool", "Give each tool a name of its own.", "there is a tool %q already", brief(string(t.ID)))
		}
		seen[t.ID] = true
		v.description(below(at, "description"), t.Description, "what the tool does, and when to use it")
		v.needCommand(below(at, "run"), t.Run)
		v.timeout(below(at, "timeout"), t.Timeout)
		if t.Output != Text && t.Output != JSON {
			v.fault(below(at, "output"), "output", `Write "text" or "json".`, "%q is no rule for output", brief(string(t.Output)))
		}
		v.params(below(at, "parameters"), t.Parameters)
		if n := t.textSize(); n > MaxToolText {
			v.fault(below(at, "parameters"), "size", "Say it in fewer words, and with fewer choices.", "models would read %d bytes of it, more than %d", n, MaxToolText)
		}
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
	switch name := ToolName(plugin, id); {
	case id == "":
		v.fault(path, "required", "Give the tool a short name: analyze_csv.", "is missing")
	case !toolText.MatchString(string(id)):
		v.fault(path, "tool-id", "Use 1 to 64 letters, digits, dashes and underscores, and begin with a letter or digit.", "%q is no tool's name", brief(string(id)))
	case slices.Contains(ownTools(), name):
		v.fault(path, "tool-id", "Choose another: the sandbox has a tool of this name.", "%s is reserved", name)
	case len(name) > MaxToolName:
		v.fault(path, "tool-id", "Shorten the plugin's name or the tool's.", "%s has %d characters, more than %d", name, len(name), MaxToolName)
	case len(name) > usualToolName || strings.ContainsRune(name, '.'):
		v.warn(path, "tool-name", "Shorten the plugin's name or the tool's, and use no dots.",
			"%s: some models take only names of at most %d letters, digits, dashes and underscores", name, usualToolName)
	}
}

func (v *validator) params(path string, params map[ParamName]Param) {
	if !v.count(path, len(params), MaxParams) {
		return
	}
	variables := map[string]ParamName{}
	for _, name := range sortedKeys(params) {
		at := below(path, string(name))
		if !paramText.MatchString(string(name)) {
			v.fault(at, "parameter", "Use at most 64 letters, digits and underscores, and do not begin with a digit: output_format.", "%q cannot be part of a variable's name", brief(string(name)))
			continue
		}
		if other, taken := variables[name.Variable()]; taken {
			v.fault(at, "parameter", "Rename one of the two.", "it and %s would both be %s", other, name.Variable())
		}
		variables[name.Variable()] = name
		v.param(at, params[name])
	}
}

func (v *validator) param(path string, p Param) {
	if !slices.Contains([]ParamType{String, Number, Integer, Boolean, Array, Object}, p.Type) {
		v.fault(below(path, "type"), "parameter-type", "Write string, number, integer, boolean, array or object.", "%q is no type", brief(string(p.Type)))
		return
	}
	if len(p.Description) > MaxDescription {
		v.fault(below(path, "description"), "size", "Say it in fewer words.", "%d bytes are more than %d", len(p.Description), MaxDescription)
	}
	v.prose(below(path, "description"), p.Description)
	if v.count(below(path, "enum"), len(p.Enum), MaxList) {
		for i, choice := range p.Enum {
			v.value(item(below(path, "enum"), i), p.Type, choice)
		}
	}
	if p.Default == nil {
		return
	}
	v.value(below(path, "default"), p.Type, *p.Default)
	if len(p.Enum) > 0 && !slices.Contains(p.Enum, *p.Default) {
		v.fault(below(path, "default"), "default", "Take one of the choices, or add it to them.", "%q is none of the choices", brief(*p.Default))
	}
	if p.Required != nil && *p.Required {
		v.warn(below(path, "required"), "default", "Remove the default, or required.", "what must be given never has its default")
	}
}

// value checks the text of a value.
func (v *validator) value(path string, t ParamType, text string) {
	v.prose(path, text)
	if len(text) > MaxCommand {
		v.fault(path, "size", "Shorten it.", "%d bytes are more than %d", len(text), MaxCommand)
	}
	if !t.Holds(text) {
		v.fault(path, "value", "Write a value of the argument's type.", "%q is no %s", brief(text), t)
	}
}

// Holds reports whether a text is a value of the type.
func (t ParamType) Holds(text string) bool {
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
	case Array, Object:
		begin := map[ParamType]string{Array: "[", Object: "{"}[t]
		return json.Valid([]byte(text)) && strings.HasPrefix(strings.TrimSpace(text), begin)
	}
	return false
}
