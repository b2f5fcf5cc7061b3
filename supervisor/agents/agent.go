package agents

import (
	"path"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
)

// Agent is a user of the sandbox.
type Agent struct {
	ID   config.AgentID
	Name config.AgentName // may change
	// User and UID are its identity in the guest. A UID is never given to
	// another agent.
	User config.LinuxUser
	UID  uint32
	// Folder is the name of its home folder. It differs from Name while an
	// agent is renamed that has a room.
	Folder   config.AgentName
	Created  time.Time
	Settings config.AgentSettings
}

// Home returns its home folder in the guest.
func (a Agent) Home() string { return path.Join(guest.HomesDir, string(a.Folder)) }
