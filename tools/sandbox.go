package tools

// Host has the services behind the sandbox's own tools.
type Host struct {
	Rooms     Rooms
	Secrets   Secrets
	Artifacts Artifacts
	// Installer is shared with plugin installs, so that an agent has one install at a time.
	Installer *Installer
}

// Sandbox returns the sandbox's own tools.
func Sandbox(b Host) []Tool {
	return []Tool{
		newRead(b.Rooms), newSearch(b.Rooms), newWrite(b.Rooms), newEdit(b.Rooms), newExec(b.Rooms), newProcess(b.Rooms),
		newInstall(b.Installer), newPipInstall(b.Installer), newNPMInstall(b.Installer),
		newSecretCheck(b.Secrets), newSecretSet(b.Secrets), newCode(b.Rooms), newShare(b.Rooms, b.Artifacts),
	}
}
