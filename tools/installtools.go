package tools

import (
	"context"

	"osaurus-sandbox/tools/packages"
)

type installIn struct {
	Packages []string `json:"packages" jsonschema:"each a name, and perhaps a version" limit:"minitems=1,maxitems=32"`
}

// installSpec returns the Spec of a tool that installs.
func installSpec(name Name, title, description string) Spec {
	return Spec{
		Name: name, Title: title, Description: description, Gate: Exec, Lean: true, Budget: installBudget,
		Hints: Hints{Idempotent: true, OpenWorld: true},
	}
}

// newInstall makes sandbox_install.
func newInstall(i *Installer) Tool {
	return Define(installSpec("sandbox_install", "Install system packages",
		`Install packages of your sandbox's Linux (apk or apt, whichever it has), as root, for you alone: ["ffmpeg", "jq=1.7.1-r0"].`,
	), func(ctx context.Context, c *Call, in installIn) (Installed, error) {
		return i.System(ctx, c, in.Packages)
	})
}

// newPipInstall makes sandbox_pip_install.
func newPipInstall(i *Installer) Tool {
	return Define(installSpec("sandbox_pip_install", "Install Python packages",
		`Install Python packages into your virtual environment ~/.venv, whose python3 comes first in PATH: ["requests", "pandas>=2,<3"].`,
	), func(ctx context.Context, c *Call, in installIn) (Installed, error) {
		return i.Install(ctx, c, packages.Pip, in.Packages)
	})
}

// newNPMInstall makes sandbox_npm_install.
func newNPMInstall(i *Installer) Tool {
	return Define(installSpec("sandbox_npm_install", "Install Node packages",
		`Install Node packages into ~/.osaurus/node_workspace, where node and your commands find them from any folder: ["typescript@^5", "@types/node"].`,
	), func(ctx context.Context, c *Call, in installIn) (Installed, error) {
		return i.Install(ctx, c, packages.NPM, in.Packages)
	})
}
