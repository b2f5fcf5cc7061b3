package tools

import (
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/tools/packages"
)

// Rooms returns the room of an agent, whose calls start the machine and make the
// room if necessary.
type Rooms func(Agent) engine.Room

// environment is what a command of a tool finds beside its login's: the
// programs that the agent installed come first.
func environment(a Agent) []string {
	venv, modules := packages.Venv(a.Home), packages.Workspace(a.Home)+"/node_modules"
	return []string{
		"PATH=" + modules + "/.bin:" + venv + "/bin:" + guest.SystemPath,
		"VIRTUAL_ENV=" + venv,
		"NODE_PATH=" + modules,
	}
}
