package engine

import (
	"time"

	"osaurus-sandbox/config"
)

// RoomConfig is what the room of an agent shall be.
type RoomConfig struct {
	User     config.LinuxUser
	UID      uint32 // of the user, its group and its quota; never another user's before
	Home     string // a folder of HomesDir
	Hostname string
	Network  RoomNetwork // zero means RoomOutbound
	// HostServices says that with RoomOutbound it also reaches what listens on the host.
	HostServices bool
	Limits       Limits
}

// RoomNetwork is what a room reaches.
type RoomNetwork string

const (
	RoomOutbound RoomNetwork = "outbound" // what the guest reaches, but neither the host's loopback, the guest nor a room
	RoomAlone    RoomNetwork = "none"     // itself
)

// Limits are what a room may use; 0 is the guest's default.
type Limits struct {
	CPUWeight    uint32 // against other rooms; default 100
	CPUMaxMillis uint32 // thousandths of a processor; default none
	Memory       uint64 // bytes; default half of the guest's
	PIDs         uint32 // processes and threads; default 512
	Disk         uint64 // bytes of its layer and heavy folders; default half of the disk
	DiskFiles    uint64
	IO           uint64 // bytes a second, read and written each; default none
}

// RoomUsage is what a room uses. It is the guest's word: bounded, but not to be
// believed.
type RoomUsage struct {
	User           string
	CPU            time.Duration
	Memory         uint64
	MemoryPeak     uint64 // 0 where the kernel does not know
	PIDs           uint32
	Disk           uint64
	DiskFiles      uint64
	Received, Sent uint64 // bytes over the network
	OOMKills       uint64
	Limits         Limits // those in force
	Made           time.Time
}

// RoomProcess is a process in a room. It is the guest's word, and its command
// the agent's.
type RoomProcess struct {
	User      string
	PID, PPID int32 // in the guest
	Command   string
	State     string // one letter, as ps shows it
	CPU       time.Duration
	Resident  uint64
	Started   time.Time
}

// Ensured is a room that is what it shall be.
type Ensured struct {
	Made  bool     // for this: it was not there
	Anew  bool     // with an empty layer, as its own was begun on another base
	Lacks []string // such as a quota, where there is no data disk
}
