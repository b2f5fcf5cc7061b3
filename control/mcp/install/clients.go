// Package install adds the MCP server to the configuration files of its
// clients, and removes it, without changing anything else in them.
package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// Server is the name of the entry, in every client.
const Server = "osaurus-sandbox"

// callTime is the time limit of calls that is set in clients, in seconds: a
// call may have to wait for the first boot, or for a person.
const callTime = 900

// Command is how a client starts the server.
type Command struct {
	Path string
	Args []string
	Env  map[string]string
}

// Client is an app that uses MCP servers.
type Client struct {
	ID    string // as people write it: "claude-code"
	Title string
	// Then is what makes the app read its file again.
	Then string

	at     func(Places) string
	format format
	key    string // of the servers
	list   bool   // they are a list, of which each says its name
	entry  func(Command) object
}

// format is a language of configuration files. Its edits need not work for
// every file: Add and Remove check the result.
type format interface {
	read(text []byte) (any, error)
	set(text []byte, at place, entry object) ([]byte, error)
	unset(text []byte, at place) ([]byte, error)
	snippet(at place, entry object) string
}

// place is where an entry is in a file.
type place struct {
	key  string // of all servers, at the top
	name string // of the entry
	list bool
}

// member is a key with its value: a string, a number, a bool, a list of
// strings, or an object. The order is kept.
type member struct {
	key   string
	value any
}

type object []member

// all returns the member with all servers, of which the entry is the only one.
func (p place) all(entry object) member {
	if p.list {
		return member{p.key, []any{entry}}
	}
	return member{p.key, object{{p.name, entry}}}
}

// splice replaces a part of a text.
func splice(text []byte, from, to int, with string) []byte {
	return slices.Concat(text[:from], []byte(with), text[to:])
}

func (c Client) place() place { return place{c.key, Server, c.list} }

// File returns the client's configuration file.
func (c Client) File(p Places) string { return c.at(p) }

// Snippet returns what a person would write into the file.
func (c Client) Snippet(cmd Command) string { return c.format.snippet(c.place(), c.entry(cmd)) }

// Add returns a file with the server in it, replacing the one that may be
// there. Everything else stays as it is, byte for byte; a file where that is
// not possible is refused.
func (c Client) Add(text []byte, cmd Command) ([]byte, error) {
	entry := c.entry(cmd)
	return c.edit(text, entry.plain(), func() ([]byte, error) { return c.format.set(text, c.place(), entry) })
}

// Remove returns a file without the server.
func (c Client) Remove(text []byte) ([]byte, error) {
	whole, err := c.format.read(text)
	if err != nil {
		return nil, c.broken(err)
	}
	if !c.place().has(whole) {
		return text, nil
	}
	return c.edit(text, nil, func() ([]byte, error) { return c.format.unset(text, c.place()) })
}

// Has reports whether the server is in a file.
func (c Client) Has(text []byte) bool {
	whole, err := c.format.read(text)
	return err == nil && c.place().has(whole)
}

// Same reports whether two files have the same content.
func (c Client) Same(a, b []byte) bool {
	x, errX := c.format.read(a)
	y, errY := c.format.read(b)
	return errors.Join(errX, errY) == nil && reflect.DeepEqual(c.place().trimmed(x), c.place().trimmed(y))
}

// edit edits a file and checks that only the entry has changed.
func (c Client) edit(text []byte, entry any, do func() ([]byte, error)) ([]byte, error) {
	before, err := c.format.read(text)
	if err != nil {
		return nil, c.broken(err)
	}
	want, err := c.place().with(before, entry)
	if err != nil {
		return nil, c.byHand(err)
	}
	if same, err := c.format.read(text); err == nil && reflect.DeepEqual(same, want) {
		return text, nil
	}
	after, err := do()
	if err != nil {
		return nil, c.byHand(err)
	}
	got, err := c.format.read(after)
	if at := c.place(); err != nil || !reflect.DeepEqual(at.trimmed(got), at.trimmed(want)) {
		return nil, c.byHand(errors.New("it is written in a way that this program cannot edit"))
	}
	return after, nil
}

func (c Client) broken(err error) error {
	return fault.New(fault.InvalidArgs, "read the configuration of", c.Title, err).Advise("Correct the file first; it was not changed.")
}

func (c Client) byHand(err error) error {
	return fault.New(fault.Rejected, "edit the configuration of", c.Title, err).
		Advise("The file was not changed. Edit it by hand: osaurus-sandbox mcp config " + c.ID + " prints what to add.")
}

// Find returns the client with an id.
func Find(id string) (Client, error) {
	list := All()
	i := slices.IndexFunc(list, func(c Client) bool { return c.ID == id })
	if i < 0 {
		return Client{}, fault.Newf(fault.NotFound, "find client", id, "unknown client").
			Advise("Known clients: " + strings.Join(IDs(), ", ") + ". For others, configure the command osaurus-sandbox mcp")
	}
	return list[i], nil
}

// IDs returns the ids of all clients.
func IDs() []string {
	var ids []string
	for _, c := range All() {
		ids = append(ids, c.ID)
	}
	return ids
}

// has reports whether the entry exists.
func (p place) has(whole any) bool {
	top, _ := whole.(map[string]any)
	switch servers := top[p.key].(type) {
	case map[string]any:
		_, there := servers[p.name]
		return there && !p.list
	case []any:
		return p.list && p.in(servers) >= 0
	}
	return false
}

// in returns the index of the entry in a list, or -1.
func (p place) in(items []any) int {
	return slices.IndexFunc(items, func(item any) bool {
		m, _ := item.(map[string]any)
		return m["name"] == p.name
	})
}

// with returns the content of a file with another entry, or without it if that
// is nil. It changes its argument.
func (p place) with(whole, entry any) (any, error) {
	if whole == nil {
		whole = map[string]any{}
	}
	top, ok := whole.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%q cannot be added to it", p.key)
	}
	servers := top[p.key]
	switch list := servers.(type) {
	case nil:
		top[p.key] = map[string]any{p.name: entry}
		if p.list {
			top[p.key] = []any{entry}
		}
		return top, nil
	case []any:
		switch i := p.in(list); {
		case !p.list:
			return nil, fmt.Errorf("its %q is a list", p.key)
		case entry == nil:
			top[p.key] = slices.Delete(list, i, i+1)
		case i < 0:
			top[p.key] = append(list, entry)
		default:
			list[i] = entry
		}
		return top, nil
	case map[string]any:
		switch {
		case p.list:
			return nil, fmt.Errorf("its %q is not a list", p.key)
		case entry == nil:
			delete(list, p.name)
		default:
			list[p.name] = entry
		}
		return top, nil
	}
	return nil, fmt.Errorf("its %q is neither an object nor a list", p.key)
}

// trimmed returns the content of a file without an empty list of servers.
func (p place) trimmed(whole any) any {
	top, _ := whole.(map[string]any)
	switch servers := top[p.key].(type) {
	case map[string]any:
		if len(servers) == 0 {
			delete(top, p.key)
		}
	case []any:
		if len(servers) == 0 {
			delete(top, p.key)
		}
	}
	if len(top) == 0 {
		return nil
	}
	return top
}

// plain returns an object in the form of decoded JSON.
func (o object) plain() any {
	whole, err := asJSON(o.value())
	if err != nil {
		panic("install: " + err.Error()) // a mistake in All
	}
	return whole
}

func (o object) value() map[string]any {
	m := map[string]any{}
	for _, each := range o {
		m[each.key] = each.value
		if inner, ok := each.value.(object); ok {
			m[each.key] = inner.value()
		}
	}
	return m
}

// asJSON returns a value in the form of decoded JSON.
func asJSON(v any) (whole any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &whole)
	return whole, err
}
