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

// Host has the services behind the sandbox's own tools.
type Host struct {
	Rooms     Rooms
	Secrets   Secrets
	Artifacts Artifacts
	History   History
	Mounts    Mounts
	// Installer is shared with plugin installs, so that an agent has one install at a time.
	Installer *Installer
}

// Sandbox returns the sandbox's own tools.
func Sandbox(b Host) []Tool {
	return append(installTools(b.Installer),
		newRead(b.Rooms), newSearch(b.Rooms), newWrite(b.Rooms), newEdit(b.Rooms), newExec(b.Rooms), newProcess(b.Rooms),
		newSecretCheck(b.Secrets), newSecretSet(b.Secrets), newCode(b.Rooms), newShare(b.Rooms, b.Artifacts),
		newHistory(b.History), newUndo(b.History),
		newRequestFolder(b.Mounts), newSubmitReview(b.Mounts),
	)
}
