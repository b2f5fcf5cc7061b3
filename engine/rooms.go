package engine

import (
	"net/netip"
	"time"

	"osaurus-sandbox/config"
)

// RoomConfig describes the room of an agent.
type RoomConfig struct {
	User     config.LinuxUser
	UID      uint32 // of the user, its group and its quota; never another user's before
	Home     string // a folder of HomesDir
	Hostname string
	// Address is the room's own in the gateway's network, and no other room's. If it is invalid, the
	// room has only a loopback network.
	Address netip.Addr
	Limits  Limits
	// Trust may be nil. The same pointer stands for the same value.
	Trust *Trust
}

// Trust makes a room's programs trust a certificate authority.
type Trust struct {
	Certificate string // PEM
	// Environment are variables for programs that do not read the system's certificates: NAME=value.
	Environment []string
}

// Limits are the limits of a room; 0 is the guest's default.
type Limits struct {
	CPUWeight    uint32 // against other rooms; default 100
	CPUMaxMillis uint32 // thousandths of a processor; default none
	Memory       uint64 // bytes; default half of the guest's
	PIDs         uint32 // processes and threads; default 512
	Disk         uint64 // bytes of its layer and heavy folders; default half of the disk
	DiskFiles    uint64
	IO           uint64 // bytes a second, read and written each; default none
}

// RoomUsage is what a room uses. It comes from the guest: bounded, but not to be trusted.
type RoomUsage struct {
	User           string
	CPU            time.Duration
	Memory         uint64
	MemoryPeak     uint64 // 0 if the kernel does not count it
	PIDs           uint32
	Disk           uint64
	DiskFiles      uint64
	Received, Sent uint64 // bytes over the network
	OOMKills       uint64
	Limits         Limits // those in force
	Made           time.Time
}

// RoomProcess is a process in a room. It comes from the guest and must not be trusted.
type RoomProcess struct {
	User      string
	PID, PPID int32 // in the guest
	Command   string
	State     string // one letter, as ps shows it
	CPU       time.Duration
	Resident  uint64
	Started   time.Time
	// Open are paths of the folder that was asked for: files that it has open, and its working
	// directory. Not all if there are many.
	Open []string
}

// Ensured is the result of EnsureRoom.
type Ensured struct {
	Made  bool     // the room did not exist
	Anew  bool     // with an empty layer, because the old one belongs to another base
	Lacks []string // what could not be set, such as a quota without a data disk
}
