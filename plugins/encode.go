package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// Hash is a recipe's content in 64 hexadecimal digits.
type Hash string

// Encode writes the recipe in its one form: keys sorted, what says nothing left out, two spaces of
// indentation, a newline at the end. What Parse reads of it is the same recipe.
func (r Recipe) Encode() ([]byte, error) {
	text, err := printable.Document(r.object())
	if err != nil {
		return nil, fault.New(fault.InvalidArgs, "write recipe", brief(r.Name), err)
	}
	return text, nil
}

// Hash is the content's SHA-256: that of what Encode writes without the time of the change.
func (r Recipe) Hash() (Hash, error) {
	r.ModifiedAt = time.Time{}
	text, err := r.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return Hash(hex.EncodeToString(sum[:])), nil
}

// MarshalJSON is the recipe in its one form.
func (r Recipe) MarshalJSON() ([]byte, error) { return r.Encode() }

// UnmarshalJSON reads it as Parse does.
func (r *Recipe) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*r = parsed
	}
	return err
}

// members are an object's. encoding/json sorts them.
type members map[string]any

func (m members) put(key string, value any, there bool) {
	if there {
		m[key] = value
	}
}

func (m members) text(key, text string) { m.put(key, text, text != "") }

func (r Recipe) object() members {
	m := members{"name": r.Name, "description": r.Description}
	m.text("version", r.Version)
	m.text("author", r.Author)
	m.text("source", r.Source)
	m.text("setup", r.Setup)
	m.put("dependencies", r.Dependencies, len(r.Dependencies) > 0)
	m.put("files", r.Files, len(r.Files) > 0)
	m.put("tools", objects(r.Tools), len(r.Tools) > 0)
	m.put("secrets", r.Secrets, len(r.Secrets) > 0)
	permissions := r.Permissions.object()
	m.put("permissions", permissions, len(permissions) > 0)
	if r.Daemon != nil {
		m["daemon"] = r.Daemon.object()
	}
	events := r.Events.object()
	m.put("events", events, len(events) > 0)
	m.put("metadata", r.Metadata, len(r.Metadata) > 0)
	m.put("modifiedAt", r.ModifiedAt.UTC().Format(time.RFC3339Nano), !r.ModifiedAt.IsZero())
	return m
}

func objects[T interface{ object() members }](list []T) []members {
	out := make([]members, len(list))
	for i, t := range list {
		out[i] = t.object()
	}
	return out
}

// with is an object that begins with the keys that nobody here knows.
func (e Extra) with() members {
	m := members{}
	maps.Copy(m, e)
	return m
}

func (t Tool) object() members {
	m := t.Extra.with()
	m["id"], m["description"], m["run"] = t.ID, t.Description, t.Run
	m.put("timeout", int(t.Timeout/time.Second), t.Timeout != 0)
	m.text("output", string(t.Output))
	if len(t.Parameters) > 0 {
		params := make(map[ParamName]members, len(t.Parameters))
		for name, p := range t.Parameters {
			params[name] = p.object()
		}
		m["parameters"] = params
	}
	return m
}

func (p Param) object() members {
	m := p.Extra.with()
	m["type"] = p.Type
	m.text("description", p.Description)
	m.put("default", p.Default, p.Default != nil)
	m.put("enum", p.Enum, len(p.Enum) > 0)
	m.put("required", p.Required, p.Required != nil)
	return m
}

func (p Permissions) object() members {
	m := p.Extra.with()
	m.text("network", string(p.Network))
	m.put("inference", true, p.Inference)
	return m
}

func (d Daemon) object() members {
	m := d.Extra.with()
	m["command"] = d.Command
	m.put("env", d.Env, len(d.Env) > 0)
	return m
}

func (e Events) object() members {
	m := e.Extra.with()
	if len(e.Subscribe) > 0 {
		list := make([]any, len(e.Subscribe))
		for i, s := range e.Subscribe {
			list[i] = s.object()
		}
		m["subscribe"] = list
	}
	m.put("emit", e.Emit, len(e.Emit) > 0)
	return m
}

// object is a topic alone where nothing else is said, as it was read.
func (s Subscription) object() any {
	m := s.Extra.with()
	m.text("run", s.Run)
	m.put("timeout", int(s.Timeout/time.Second), s.Timeout != 0)
	if len(m) == 0 {
		return s.Topic
	}
	m["topic"] = s.Topic
	return m
}
