package agents

import (
	"path"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
)

// Agent is a user of the sandbox.
type Agent struct {
	ID   config.AgentID   `json:"id"`
	Name config.AgentName `json:"name"` // may change
	// User and UID are its identity in the guest. A UID is never given to
	// another agent.
	User config.LinuxUser `json:"user"`
	UID  uint32           `json:"uid"`
	// Folder is the name of its home folder: the agent's first name, unless that folder was another agent's. It
	// stays when the agent is renamed, since virtual environments and mounts have its path.
	Folder   config.AgentName     `json:"folder"`
	Created  time.Time            `json:"created"`
	Settings config.AgentSettings `json:"settings"`
	// Unfinished says that the daemon was ended while it filled the new agent. The next one deletes it.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Home returns its home folder in the guest.
func (a Agent) Home() string { return path.Join(guest.HomesDir, string(a.Folder)) }
