package plugins

import (
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const idAdvice = "Name the plugin with letters, digits, spaces, dots, dashes and underscores, at most 64, with a letter or digit at either end."

// ID is what the plugin is called wherever a name must be short: its name in small letters,
// with dashes for spaces. A name of which anything else would have to change has none, so two
// names have the same id only if they differ in capitals, and in spaces for dashes; the
// library refuses the second of such two.
func (r Recipe) ID() (config.PluginID, error) { return IDOf(r.Name) }

// IDOf is the id of a plugin with a name.
func IDOf(name string) (config.PluginID, error) {
	const op = "name plugin"
	// Not strings.ToLower: the Kelvin sign's small letter is k.
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

// ToolName is what a model calls a tool of a plugin by.
func ToolName(plugin config.PluginID, tool ToolID) string { return string(plugin) + "_" + string(tool) }

// reserved reports an id whose tools would be named as the sandbox's own: sandbox_…, osaurus_….
func reserved(id config.PluginID) bool {
	for _, own := range []string{"sandbox", "osaurus"} {
		if string(id) == own || strings.HasPrefix(string(id), own+"_") {
			return true
		}
	}
	return id == "osaurus-host" // the program that asks the host
}

// ownTools are tools without a prefix of their own, which a plugin's could be named as.
func ownTools() []string { return []string{"share_artifact"} }

// brief is as much of a text as is enough to recognise it, on one line.
func brief(text string) string { return printable.Line(text, 60) }
