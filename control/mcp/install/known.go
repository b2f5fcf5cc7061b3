package install

import (
	"maps"
	"path/filepath"
	"slices"
)

// Places are the folders of configuration files.
type Places struct {
	User string // the person's own folder
	// Apps is where graphical apps keep theirs: ~/Library/Application Support on macOS,
	// ~/.config elsewhere.
	Apps string
	// Config is $XDG_CONFIG_HOME, or ~/.config.
	Config string
	// Codex is $CODEX_HOME, or ~/.codex.
	Codex string
}

// restart is what most clients need.
func restart(title string) string { return "Quit " + title + " and start it again." }

// All returns the known clients, by id.
func All() []Client {
	user := func(parts ...string) func(Places) string {
		return func(p Places) string { return filepath.Join(append([]string{p.User}, parts...)...) }
	}
	return []Client{
		{ID: "claude-code", Title: "Claude Code", Then: "It takes effect in the next session.", at: user(".claude.json"), format: jsonc{}, place: place{key: "mcpServers"}, entry: typed},
		{ID: "claude-desktop", Title: "Claude Desktop", Then: restart("Claude Desktop"), at: apps("Claude", "claude_desktop_config.json"), format: jsonc{}, place: place{key: "mcpServers"}, entry: bare},
		{ID: "codex", Title: "Codex", Then: "It takes effect in the next session.", at: func(p Places) string { return filepath.Join(p.Codex, "config.toml") }, format: tomlText{}, place: place{key: "mcp_servers"}, entry: func(c Command) object {
			return append(bare(c), member{"startup_timeout_sec", 60}, member{"tool_timeout_sec", callTime})
		}},
		{ID: "cursor", Title: "Cursor", Then: "Cursor asks whether to turn it on: Settings, MCP.", at: user(".cursor", "mcp.json"), format: jsonc{}, place: place{key: "mcpServers"}, entry: bare},
		{ID: "gemini-cli", Title: "Gemini CLI", Then: "It takes effect in the next session in a folder that Gemini CLI trusts: it asks there, or type /permissions trust.", at: user(".gemini", "settings.json"), format: jsonc{}, place: place{key: "mcpServers"}, entry: func(c Command) object {
			return append(bare(c), member{"timeout", callTime * 1000})
		}},
		{ID: "goose", Title: "Goose", Then: "It takes effect in the next session.", at: func(p Places) string { return filepath.Join(p.Config, "goose", "config.yaml") }, format: yamlText{}, place: place{key: "extensions"}, entry: func(c Command) object {
			return object{{"enabled", true}, {"type", "stdio"}, {"name", Server}, {"cmd", c.Path}, {"args", c.Args}, {"envs", env(c)}, {"timeout", callTime}}
		}},
		{ID: "lm-studio", Title: "LM Studio", Then: "It takes effect as soon as LM Studio sees the file.", at: user(".lmstudio", "mcp.json"), format: jsonc{}, place: place{key: "mcpServers"}, entry: bare},
		{ID: "opencode", Title: "OpenCode", Then: "It takes effect in the next session.", at: func(p Places) string { return filepath.Join(p.Config, "opencode", "opencode.json") }, format: jsonc{}, place: place{key: "mcp"}, entry: func(c Command) object {
			o := object{{"type", "local"}, {"command", append([]string{c.Path}, c.Args...)}, {"enabled", true}, {"timeout", callTime * 1000}}
			if len(c.Env) > 0 {
				o = append(o, member{"environment", env(c)})
			}
			return o
		}},
		{ID: "osaurus", Title: "Osaurus", Then: restart("Osaurus"), at: user(".osaurus", "providers", "mcp.json"), format: jsonc{}, place: place{key: "providers", list: true}, entry: func(c Command) object {
			return object{
				{"id", "05A0A0B5-5A2D-4B0C-9C1E-6F7361757275"}, {"name", Server}, {"url", ""}, {"enabled", true}, {"autoConnect", true}, {"transport", "stdio"},
				{"executionHost", "host"}, {"command", c.Path}, {"args", c.Args}, {"env", env(c)}, {"toolCallTimeout", callTime},
			}
		}},
		{ID: "vscode", Title: "Visual Studio Code", Then: "It asks whether it may start it.", at: apps("Code", "User", "mcp.json"), format: jsonc{}, place: place{key: "servers"}, entry: typed},
		{ID: "windsurf", Title: "Windsurf", Then: "Press refresh in its MCP settings.", at: user(".codeium", "windsurf", "mcp_config.json"), format: jsonc{}, place: place{key: "mcpServers"}, entry: bare},
		{ID: "zed", Title: "Zed", Then: "It takes effect at once.", at: func(p Places) string { return filepath.Join(p.Config, "zed", "settings.json") }, format: jsonc{}, place: place{key: "context_servers"}, entry: func(c Command) object {
			return object{{"source", "custom"}, {"command", c.Path}, {"args", c.Args}, {"env", env(c)}}
		}},
	}
}

func apps(parts ...string) func(Places) string {
	return func(p Places) string { return filepath.Join(append([]string{p.Apps}, parts...)...) }
}

// bare is the entry for most clients.
func bare(c Command) object {
	o := object{{"command", c.Path}, {"args", c.Args}}
	if len(c.Env) > 0 {
		o = append(o, member{"env", env(c)})
	}
	return o
}

// typed is the entry for clients that want the kind of server.
func typed(c Command) object { return append(object{{"type", "stdio"}}, bare(c)...) }

func env(c Command) object {
	o := object{}
	for _, key := range slices.Sorted(maps.Keys(c.Env)) {
		o = append(o, member{key, c.Env[key]})
	}
	return o
}
