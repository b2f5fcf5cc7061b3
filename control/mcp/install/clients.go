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
	"osaurus-sandbox/internal/printable"
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
	place
	entry func(Command) object
}

// format edits files of one language. Its edits need not work for every file: Client.edit
// checks the result.
type format interface {
	read(text []byte) (any, error)
	set(text []byte, at place, entry object) ([]byte, error)
	unset(text []byte, at place) ([]byte, error)
	snippet(at place, entry object) string
}

// place is where the entry is in a file: in an object by its name, or in a list.
type place struct {
	key  string // of all servers, at the top
	list bool   // each server says its name
}

// member is a key with its value.
type member struct {
	key   string
	value any
}

// object is a JSON object whose members keep their order.
type object []member

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(o))
	for i, m := range o {
		parts[i] = literal(m.key) + ":" + literal(m.value)
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

// literal returns a value as JSON in one line, which TOML and YAML understand too, except
// that TOML writes objects differently.
func literal(v any) string {
	text, err := printable.JSON(v)
	if err != nil {
		panic("install: " + err.Error()) // a mistake in All
	}
	return string(text)
}

// servers returns the member with all servers if the entry is the only one.
func (p place) servers(entry object) member {
	if p.list {
		return member{p.key, []any{entry}}
	}
	return member{p.key, object{{Server, entry}}}
}

// splice replaces a part of a text.
func splice(text []byte, from, to int, with string) []byte {
	return slices.Concat(text[:from], []byte(with), text[to:])
}

// File returns the client's configuration file.
func (c Client) File(p Places) string { return c.at(p) }

// Snippet returns what a person would write into the file.
func (c Client) Snippet(cmd Command) string { return c.format.snippet(c.place, c.entry(cmd)) }

// Add returns a file with the server in it, replacing an existing entry. Everything else
// stays as it is, byte for byte; a file where that is not possible is refused.
func (c Client) Add(text []byte, cmd Command) ([]byte, error) {
	entry := c.entry(cmd)
	want, err := asJSON(entry)
	if err != nil {
		return nil, c.byHand(err)
	}
	return c.edit(text, want, func() ([]byte, error) { return c.format.set(text, c.place, entry) })
}

// Remove returns a file without the server, nothing if that leaves no content.
func (c Client) Remove(text []byte) ([]byte, error) {
	if _, err := c.format.read(text); err != nil {
		return nil, c.broken(err)
	}
	if !c.Has(text) {
		return text, nil
	}
	after, err := c.edit(text, nil, func() ([]byte, error) { return c.format.unset(text, c.place) })
	if rest, _, failed := c.split(after); err == nil && failed == nil && rest == nil {
		return nil, nil
	}
	return after, err
}

// Has reports whether the server is in a file.
func (c Client) Has(text []byte) bool {
	_, entry, err := c.split(text)
	return err == nil && entry != nil
}

// edit edits a file and checks that it then has this entry, and that nothing else changed.
func (c Client) edit(text []byte, want any, change func() ([]byte, error)) ([]byte, error) {
	rest, entry, err := c.split(text)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(entry, want) {
		return text, nil
	}
	after, err := change()
	if err != nil {
		return nil, c.byHand(err)
	}
	left, got, err := c.split(after)
	if err != nil || !reflect.DeepEqual(left, rest) || !reflect.DeepEqual(got, want) {
		return nil, c.byHand(errors.New("it is written in a way that this program cannot edit"))
	}
	return after, nil
}

// split reads a file and returns its content without the entry, and the entry. Both may be
// nil.
func (c Client) split(text []byte) (rest map[string]any, entry any, err error) {
	whole, err := c.format.read(text)
	if err != nil {
		return nil, nil, c.broken(err)
	}
	rest, ok := whole.(map[string]any)
	if !ok && whole != nil {
		return nil, nil, c.byHand(fmt.Errorf("%q cannot be added to it", c.key))
	}
	left := 0
	switch servers := rest[c.key].(type) {
	case nil:
	case map[string]any:
		ok = !c.list
		entry = servers[Server]
		delete(servers, Server)
		left = len(servers)
	case []any:
		ok = c.list
		if i := slices.IndexFunc(servers, isOurs); i >= 0 {
			entry = servers[i]
			servers = slices.Delete(servers, i, i+1)
			rest[c.key] = servers
		}
		left = len(servers)
	default:
		ok = false
	}
	switch {
	case !ok && rest != nil && c.list:
		return nil, nil, c.byHand(fmt.Errorf("its %q is not a list", c.key))
	case !ok && rest != nil:
		return nil, nil, c.byHand(fmt.Errorf("its %q is not an object", c.key))
	case left == 0: // like a file without servers
		delete(rest, c.key)
	}
	if len(rest) == 0 {
		return nil, entry, nil
	}
	return rest, entry, nil
}

// isOurs reports whether an element of a list of servers is the entry.
func isOurs(server any) bool {
	m, _ := server.(map[string]any)
	return m["name"] == Server
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

// asJSON returns a value in the form of decoded JSON.
func asJSON(v any) (whole any, err error) {
	text, err := printable.JSON(v)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &whole)
	return whole, err
}
