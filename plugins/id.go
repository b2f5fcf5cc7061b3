package plugins

import (
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const idAdvice = "Name the plugin with letters, digits, spaces, dots, dashes and underscores, at most 64, with a letter or digit at either end."

// ID returns the plugin's name in lower case with dashes for spaces. Names that would need other
// changes have no id, so ids are the same only for names that differ in case, or in spaces and
// dashes. The library refuses the second of those.
func (r Recipe) ID() (config.PluginID, error) { return IDOf(r.Name) }

// IDOf returns the id for a name.
func IDOf(name string) (config.PluginID, error) {
	const op = "name plugin"
	// Not strings.ToLower, which makes a k of the Kelvin sign.
	text := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
	id, err := config.ParsePluginID(text)
	if err != nil {
		return "", fault.Newf(fault.InvalidArgs, op, brief(name), "no id can be made of this name").Advise(idAdvice)
	}
	if reserved(id) {
		return "", fault.Newf(fault.InvalidArgs, op, string(id), "the name is reserved").
			Advise("Choose another: its tools would look as if they were the sandbox's own.")
	}
	return id, nil
}

// ToolName returns the name under which models call a plugin's tool.
func ToolName(plugin config.PluginID, tool ToolID) string { return string(plugin) + "_" + string(tool) }

// reserved reports whether an id's tools would look like the sandbox's own: sandbox_…, osaurus_….
func reserved(id config.PluginID) bool {
	prefix, _, _ := strings.Cut(string(id), "_")
	return prefix == "sandbox" || prefix == "osaurus" || id == "osaurus-host" // the program that calls the bridge
}

// ownTools returns the sandbox's tools that have no reserved prefix.
func ownTools() []string { return []string{"share_artifact"} }

// brief shortens a text to one line for an error.
func brief(text string) string { return printable.Line(text, 60) }
