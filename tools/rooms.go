package tools

import (
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/tools/packages"
)

// Rooms returns an agent's room. Calls to it start the machine and create the room if needed.
type Rooms func(Agent) engine.Room

// environment returns variables for commands, in addition to those of the login. Programs that the
// agent installed come first in PATH.
func environment(a Agent) []string {
	venv, modules := packages.Venv(a.Home), packages.Workspace(a.Home)+"/node_modules"
	return []string{
		"PATH=" + modules + "/.bin:" + venv + "/bin:" + guest.SystemPath,
		"VIRTUAL_ENV=" + venv,
		"NODE_PATH=" + modules,
	}
}
