package agents

import (
	"path"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
)

// Agent is somebody who works in the sandbox.
type Agent struct {
	ID   config.AgentID
	Name config.AgentName // may change
	// User and UID are what it is in the guest, for ever. No other agent ever
	// has the UID.
	User config.LinuxUser
	UID  uint32
	// Folder is what its home folder is called. It is the name, but for an agent
	// that was renamed while it had a room.
	Folder   config.AgentName
	Created  time.Time
	Settings config.AgentSettings
}

// Home is its home folder in the guest.
func (a Agent) Home() string { return path.Join(guest.HomesDir, string(a.Folder)) }
