package tools

// Host is what the sandbox's own tools act through.
type Host struct {
	Rooms     Rooms
	Secrets   Secrets
	Artifacts Artifacts
	// Installer is shared with whoever else installs for agents.
	Installer *Installer
}

// Sandbox are the sandbox's own tools.
func Sandbox(b Host) []Tool {
	return []Tool{
		newRead(b.Rooms), newSearch(b.Rooms), newWrite(b.Rooms), newEdit(b.Rooms), newExec(b.Rooms), newProcess(b.Rooms),
		newInstall(b.Installer), newPipInstall(b.Installer), newNPMInstall(b.Installer),
		newSecretCheck(b.Secrets), newSecretSet(b.Secrets), newCode(b.Rooms), newShare(b.Rooms, b.Artifacts),
	}
}
