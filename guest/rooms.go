package guest

import (
	"context"
	"errors"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/printable"
)

// roomTimeout bounds what makes or ends a room: mounts, and the end of whatever
// runs in it. On an emulated processor beside others it takes seconds.
const roomTimeout = time.Minute

// HomesDir is where the homes of agents are in the guest.
const HomesDir = wire.HomesDir

// SharedDir is the folder in the guest that all agents share.
const SharedDir = wire.SharedDir

// SystemPath is where the guest has the programs of its distribution.
const SystemPath = wire.SystemPath

// Room is what the room of an agent shall be.
type Room struct {
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

// EnsureRoom makes a room what it shall be, if it is not yet. It may be called
// often and at once: a room is made once, and what runs in it stays. The token is what the
// agent's programs show to the bridge: one that differs takes the place of the last.
//
// It fails with Rejected if the room or its layer is there with another user id or
// home.
func (c *Client) EnsureRoom(ctx context.Context, r Room, token string) (Ensured, error) {
	const op = "make room"
	spec := r.proto()
	if err := errors.Join(wire.CheckRoom(spec), wire.CheckToken([]byte(token))); err != nil {
		return Ensured{}, err
	}
	a, err := callWithin(ctx, roomTimeout, op, string(r.User), c.rooms.Ensure, &guestpb.EnsureRequest{Room: spec, Token: []byte(token)})
	if err != nil {
		return Ensured{}, err
	}
	return Ensured{Made: a.Made, Anew: a.Anew, Lacks: clipAll(a.Warnings)}, nil
}

// SetRoomLimits changes the limits of a room that is there.
func (c *Client) SetRoomLimits(ctx context.Context, user config.LinuxUser, l Limits) error {
	limits := l.proto()
	if err := wire.CheckLimits(limits); err != nil {
		return err
	}
	_, err := callWithin(ctx, roomTimeout, "set limits", string(user), c.rooms.SetLimits, &guestpb.SetLimitsRequest{User: string(user), Limits: limits})
	return err
}

// ResetRoom ends all that runs in a room and throws its layer away. The home
// stays, and the next EnsureRoom makes the room anew.
func (c *Client) ResetRoom(ctx context.Context, user config.LinuxUser) error {
	_, err := callWithin(ctx, roomTimeout, "reset room", string(user), c.rooms.Reset, &guestpb.ResetRequest{User: string(user)})
	c.toRooms.CloseIdleConnections()
	return err
}

// RemoveRoom ends all that runs in a room and forgets it; with layer, its files
// on the data disk go too. It may be called of a room that is not there.
func (c *Client) RemoveRoom(ctx context.Context, user config.LinuxUser, layer bool) error {
	_, err := callWithin(ctx, roomTimeout, "remove room", string(user), c.rooms.Remove, &guestpb.RemoveRequest{User: string(user), Layer: layer})
	c.toRooms.CloseIdleConnections()
	return err
}

// RoomUsages says what a room uses, or with an empty user what each does.
func (c *Client) RoomUsages(ctx context.Context, user config.LinuxUser) ([]RoomUsage, error) {
	a, err := callWithin(ctx, callTimeout, "ask for usage", string(user), c.rooms.Usage, &guestpb.UsageRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	var list []RoomUsage
	for _, u := range a.Rooms {
		list = append(list, RoomUsage{
			User: printable.Clip(u.GetUser()), CPU: time.Duration(u.GetCpuNanos()), Memory: u.GetMemoryBytes(), MemoryPeak: u.GetMemoryPeakBytes(),
			PIDs: u.GetPids(), Disk: u.GetDiskBytes(), DiskFiles: u.GetDiskFiles(), Received: u.GetReceivedBytes(), Sent: u.GetSentBytes(),
			OOMKills: u.GetOomKills(), Limits: limitsOf(u.GetLimits()), Made: time.Unix(0, u.GetMadeUnixNano()),
		})
	}
	return list, nil
}

// RoomProcesses lists what runs in a room, or with an empty user in all, and
// says whether there is more than one list holds.
func (c *Client) RoomProcesses(ctx context.Context, user config.LinuxUser) (list []RoomProcess, more bool, err error) {
	a, err := callWithin(ctx, callTimeout, "list processes", string(user), c.rooms.Processes, &guestpb.ProcessesRequest{User: string(user)})
	if err != nil {
		return nil, false, err
	}
	for _, p := range a.Processes {
		list = append(list, RoomProcess{
			User: printable.Clip(p.GetUser()), PID: p.GetPid(), PPID: p.GetPpid(), Command: printable.Clip(string(p.GetCommand())),
			State: printable.Clip(p.GetState()), CPU: time.Duration(p.GetCpuNanos()), Resident: p.GetResidentBytes(), Started: time.Unix(0, p.GetStartedUnixNano()),
		})
	}
	return list, a.Truncated, nil
}

func (r Room) proto() *guestpb.Room {
	network, ok := map[RoomNetwork]guestpb.Room_Network{
		"": guestpb.Room_NETWORK_OUTBOUND, RoomOutbound: guestpb.Room_NETWORK_OUTBOUND, RoomAlone: guestpb.Room_NETWORK_NONE,
	}[r.Network]
	if !ok {
		network = -1 // refused by the check
	}
	return &guestpb.Room{User: string(r.User), Uid: r.UID, Home: r.Home, Hostname: r.Hostname, Network: network, HostServices: r.HostServices, Limits: r.Limits.proto()}
}

func (l Limits) proto() *guestpb.Limits {
	return &guestpb.Limits{
		CpuWeight: l.CPUWeight, CpuMaxMillis: l.CPUMaxMillis, MemoryBytes: l.Memory, Pids: l.PIDs,
		DiskBytes: l.Disk, DiskFiles: l.DiskFiles, IoBytesPerSecond: l.IO,
	}
}

func limitsOf(l *guestpb.Limits) Limits {
	return Limits{
		CPUWeight: l.GetCpuWeight(), CPUMaxMillis: l.GetCpuMaxMillis(), Memory: l.GetMemoryBytes(), PIDs: l.GetPids(),
		Disk: l.GetDiskBytes(), DiskFiles: l.GetDiskFiles(), IO: l.GetIoBytesPerSecond(),
	}
}
