package plugins

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"osaurus-sandbox/config"
)

// decode makes a recipe of a tree, as far as it can, and lists what has the wrong type. Unknown keys of
// the recipe go into its metadata, as the desktop app has them; those further down stay where they are.
func decode(top *node) (Recipe, []Finding) {
	d := &decoder{}
	o, ok := top.value.(*object)
	if !ok {
		d.fault(root, "type", "a recipe is an object {…}", "Begin with: osaurus-sandbox plugin init")
		return Recipe{}, d.findings
	}
	f := fields{d: d, o: o, path: root, known: map[string]bool{}}
	r := Recipe{
		Name: f.text("name"), Description: f.text("description"), Version: f.text("version"), Author: f.text("author"), Source: f.text("source"),
		Setup: f.text("setup"), Dependencies: texts[Dependency](f, "dependencies"), Secrets: texts[config.SecretName](f, "secrets"),
		Files: f.files(), Tools: list(f, "tools", (*decoder).tool), ModifiedAt: f.time("modifiedAt"),
	}
	if p, there := f.object("permissions"); there {
		r.Permissions = Permissions{Network: p.network(), Inference: p.bool("inference"), Extra: p.extra()}
	}
	if p, there := f.object("daemon"); there {
		r.Daemon = &Daemon{Command: p.text("command"), Env: p.texts("env"), Extra: p.extra()}
	}
	if p, there := f.object("events"); there {
		r.Events = Events{Subscribe: list(p, "subscribe", (*decoder).subscription), Emit: texts[Topics](p, "emit"), Extra: p.extra()}
	}
	if p, there := f.object("metadata"); there {
		r.Metadata = p.o.plain()
	}
	for key, value := range f.unknown() {
		if _, there := r.Metadata[key]; there {
			d.fault(below(root, key), "duplicate-key", "an unknown key is kept in metadata, which has one of this name already", "Keep one of the two.")
		}
		if r.Metadata == nil {
			r.Metadata = map[string]any{}
		}
		r.Metadata[key] = value
	}
	return r, d.findings
}

type decoder struct{ findings []Finding }

func (d *decoder) fault(path string, rule Rule, text, fix string) {
	d.findings = append(d.findings, Finding{Severity: Fault, Rule: rule, Path: path, Text: text, Fix: fix})
}

func (d *decoder) wrong(path, want string, got *node) {
	d.fault(path, "type", fmt.Sprintf("is %s, not %s", kind(got), want), "Write "+want+" there.")
}

func (d *decoder) tool(f fields) Tool {
	t := Tool{ID: ToolID(f.text("id")), Description: f.text("description"), Run: f.text("run"), Timeout: f.seconds("timeout"), Output: Output(f.text("output"))}
	if t.Output == "text" { // said or not, it is the same
		t.Output = Text
	}
	if p, there := f.object("parameters"); there {
		t.Parameters = map[ParamName]Param{}
		for _, m := range p.o.members {
			if f, ok := d.fields(below(p.path, m.key), m.node); ok {
				t.Parameters[ParamName(m.key)] = d.param(f)
			}
		}
	}
	t.Extra = f.extra()
	return t
}

func (d *decoder) param(f fields) Param {
	p := Param{Type: ParamType(f.text("type")), Description: f.text("description"), Enum: scalars(f, "enum")}
	if n := f.get("default"); n != nil {
		if text, ok := scalar(n); ok {
			p.Default = &text
		} else {
			d.wrong(below(f.path, "default"), "a text, a number, true or false", n)
		}
	}
	if f.get("required") != nil {
		required := f.bool("required")
		p.Required = &required
	}
	p.Extra = f.extra()
	return p
}

// subscription is an object, or as in the desktop app's recipes a topic alone.
func (d *decoder) subscription(f fields) Subscription {
	return Subscription{Topic: Topics(f.text("topic")), Run: f.text("run"), Timeout: f.seconds("timeout"), Extra: f.extra()}
}

// fields are the members of an object, of which each is asked for by its key.
type fields struct {
	d     *decoder
	o     *object
	path  string
	known map[string]bool
}

func (d *decoder) fields(path string, n *node) (fields, bool) {
	o, ok := n.value.(*object)
	if !ok {
		d.wrong(path, "an object", n)
	}
	return fields{d: d, o: o, path: path, known: map[string]bool{}}, ok
}

// get is the member of a key; nil where there is none, or null.
func (f fields) get(key string) *node {
	f.known[key] = true
	if n := f.o.get(key); n != nil && n.value != nil {
		return n
	}
	return nil
}

func (f fields) text(key string) string {
	n := f.get(key)
	if n == nil {
		return ""
	}
	return f.d.text(below(f.path, key), n)
}

func (d *decoder) text(path string, n *node) string {
	text, ok := n.value.(string)
	if !ok {
		d.wrong(path, "a text in quotes", n)
	}
	return text
}

func (f fields) bool(key string) bool {
	n := f.get(key)
	if n == nil {
		return false
	}
	is, ok := n.value.(bool)
	if !ok {
		f.d.wrong(below(f.path, key), "true or false", n)
	}
	return is
}

func (f fields) seconds(key string) time.Duration {
	n := f.get(key)
	if n == nil {
		return 0
	}
	number, _ := n.value.(json.Number)
	seconds, err := strconv.ParseInt(string(number), 10, 32)
	if err != nil || seconds < 1 {
		f.d.wrong(below(f.path, key), fmt.Sprintf("a whole number of seconds from 1 to %d", MaxTimeout/time.Second), n)
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (f fields) time(key string) time.Time {
	text := f.text(key)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		f.d.fault(below(f.path, key), "type", "is no time", `Remove it, or write a time as "2026-05-31T12:00:00Z".`)
		return time.Time{}
	}
	return t.UTC()
}

// network is a text, or a list of domains, which is the same as one with commas.
func (f fields) network() Network {
	const key = "network"
	if n := f.get(key); n != nil {
		if _, isList := n.value.([]*node); isList {
			return networkOf(texts[string](f, key))
		}
	}
	return canonicalNetwork(f.text(key))
}

func (f fields) object(key string) (fields, bool) {
	n := f.get(key)
	if n == nil {
		return fields{}, false
	}
	return f.d.fields(below(f.path, key), n)
}

func (f fields) texts(key string) map[string]string {
	p, there := f.object(key)
	if !there || len(p.o.members) == 0 {
		return nil
	}
	m := make(map[string]string, len(p.o.members))
	for _, member := range p.o.members {
		m[member.key] = f.d.text(below(p.path, member.key), member.node)
	}
	return m
}

func (f fields) files() map[FilePath]string {
	var m map[FilePath]string
	for key, text := range f.texts("files") {
		if m == nil {
			m = map[FilePath]string{}
		}
		m[FilePath(key)] = text
	}
	return m
}

func (f fields) items(key string) []*node {
	n := f.get(key)
	if n == nil {
		return nil
	}
	items, ok := n.value.([]*node)
	if !ok {
		f.d.wrong(below(f.path, key), "a list […]", n)
	}
	return items
}

// texts is a list of texts.
func texts[T ~string](f fields, key string) []T {
	var out []T
	for i, n := range f.items(key) {
		out = append(out, T(f.d.text(item(below(f.path, key), i), n)))
	}
	return out
}

// list is a list of objects. A text in place of one is the object's topic.
func list[T any](f fields, key string, decode func(*decoder, fields) T) []T {
	var out []T
	for i, n := range f.items(key) {
		path := item(below(f.path, key), i)
		if _, isText := n.value.(string); isText && key == "subscribe" {
			n = &node{at: n.at, value: &object{members: []member{{key: "topic", at: n.at, node: n}}}}
		}
		var t T // also for what is none: the others keep their places
		if p, ok := f.d.fields(path, n); ok {
			t = decode(f.d, p)
		}
		out = append(out, t)
	}
	return out
}

// unknown are the members that nobody asked for.
func (f fields) unknown() map[string]any {
	all := f.o.plain()
	maps.DeleteFunc(all, func(key string, _ any) bool { return f.known[key] })
	return all
}

// extra is unknown, or nil, so that a recipe that is read again is the same.
func (f fields) extra() Extra {
	if all := f.unknown(); len(all) > 0 {
		return all
	}
	return nil
}

// scalars is a list of texts, numbers and truths, each as a text.
func scalars(f fields, key string) []string {
	var out []string
	for i, n := range f.items(key) {
		text, ok := scalar(n)
		if !ok {
			f.d.wrong(item(below(f.path, key), i), "a text, a number, true or false", n)
		}
		out = append(out, text)
	}
	return out
}

func scalar(n *node) (string, bool) {
	switch v := n.value.(type) {
	case string:
		return v, true
	case json.Number:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// kind says what a value is, to a person.
func kind(n *node) string {
	switch v := n.value.(type) {
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
	case []*node:
		return "a list"
	}
	return "an object"
}
