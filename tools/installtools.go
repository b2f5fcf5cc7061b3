package tools

import (
	"context"

	"osaurus-sandbox/tools/packages"
)

type installIn struct {
	Packages []string `json:"packages" jsonschema:"each a name, and perhaps a version" limit:"minitems=1,maxitems=32"`
}

// installTools makes the tools that install packages.
func installTools(i *Installer) []Tool {
	tool := func(name Name, title, description string, m packages.Manager) Tool {
		return Define(Spec{
			Name: name, Title: title, Description: description, Gate: Exec, Lean: true, Budget: installBudget,
			Hints: Hints{Idempotent: true, OpenWorld: true},
		}, func(ctx context.Context, c *Call, in installIn) (Installed, error) {
			if m == "" {
				return i.System(ctx, c, in.Packages)
			}
			return i.Install(ctx, c, m, in.Packages)
		})
	}
	return []Tool{
		tool("sandbox_install", "Install system packages",
			`Install packages of your sandbox's Linux (apk or apt, whichever it has), as root, for you alone: ["ffmpeg", "jq=1.7.1-r0"].`, ""),
		tool("sandbox_pip_install", "Install Python packages",
			`Install Python packages into your virtual environment ~/.venv, whose python3 comes first in PATH: ["requests", "pandas>=2,<3"].`, packages.Pip),
		tool("sandbox_npm_install", "Install Node packages",
			`Install Node packages into ~/.osaurus/node_workspace, where node and your commands find them from any folder: ["typescript@^5", "@types/node"].`, packages.NPM),
	}
}
