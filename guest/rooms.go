package guest

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault/faultrpc"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
)

const (
	// roomTimeout bounds what makes or ends a room. Making one takes some 50 ms,
	// but it may have to wait for kernel modules that a guest that has only just
	// booted still loads, and ending one for processes that hang in the disk.
	roomTimeout = time.Minute
	// maxRooms and maxProcesses bound what the guest's lists are believed to
	// hold: more than fit into its memory.
	maxRooms     = 1024
	maxProcesses = 4096
)

// Room is where an agent lives in the guest. Its group and the project of its
// disk quota have the number of the user.
type Room struct {
	User     config.LinuxUser
	UID      uint32
	Home     string // absolute
	Hostname string
	Network  config.Network
	Limits   RoomLimits
}

// RoomLimits are what a room can use. Zero is the guest's default.
type RoomLimits struct {
	CPUWeight            int    // 1 to 10000; by default 100
	CPUMaxMillis         int    // thousandths of a processor; by default none
	Memory               uint64 // bytes; by default half of the guest's
	PIDs                 int    // by default 512
	DiskBytes, DiskFiles uint64 // of its layer and the heavy folders
	DiskBytesPerSecond   uint64 // each way; by default none
}

// RoomUsage is what a room uses. All of it is the guest's word.
type RoomUsage struct {
	User                 config.LinuxUser
	CPU                  time.Duration
	Memory, MemoryPeak   uint64 // bytes
	PIDs                 int
	DiskBytes, DiskFiles uint64
	Received, Sent       uint64 // bytes over the network
	OOMKills             uint64
	Limits               RoomLimits // those in force
	Made                 time.Time
}

// RoomProcess is a process in a room. All of it is the guest's word.
type RoomProcess struct {
	User        config.LinuxUser
	PID, Parent int    // in the guest, not in the room
	Command     string // clipped
	State       string // as ps shows it
	CPU         time.Duration
	Memory      uint64 // resident bytes
	Started     time.Time
}

// EnsureRoom makes a room if it is not there, and has one that is there keep
// its processes and get the limits and the network that are asked for. What it
// lacks that it should have comes back as warnings.
func (c *Client) EnsureRoom(ctx context.Context, r Room) (warnings []string, err error) {
	answer, err := callRoom(ctx, "make room", r.User, c.rooms.Ensure, &guestpb.EnsureRequest{Room: r.proto()})
	return clipAll(answer.GetWarnings()), err
}

// SetRoomLimits changes the limits of a room that is there.
func (c *Client) SetRoomLimits(ctx context.Context, user config.LinuxUser, l RoomLimits) error {
	_, err := callRoom(ctx, "limit room", user, c.rooms.SetLimits, &guestpb.SetLimitsRequest{User: string(user), Limits: l.proto()})
	return err
}

// ResetRoom ends all that runs in a room and throws its layer away. The home
// stays, and the next EnsureRoom makes the room anew.
func (c *Client) ResetRoom(ctx context.Context, user config.LinuxUser) error {
	_, err := callRoom(ctx, "reset room", user, c.rooms.Reset, &guestpb.ResetRequest{User: string(user)})
	return err
}

// RemoveRoom ends all that runs in a room and removes it and its user, and
// with layer its files on the data disk. One that is not there is removed.
func (c *Client) RemoveRoom(ctx context.Context, user config.LinuxUser, layer bool) error {
	_, err := callRoom(ctx, "remove room", user, c.rooms.Remove, &guestpb.RemoveRequest{User: string(user), Layer: layer})
	return err
}

// RoomUsage asks what rooms use: one, or all for an empty user.
func (c *Client) RoomUsage(ctx context.Context, user config.LinuxUser) ([]RoomUsage, error) {
	r, err := call(ctx, "ask for the use of rooms", c.rooms.Usage, &guestpb.UsageRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	var list []RoomUsage
	for _, u := range r.Rooms[:min(len(r.Rooms), maxRooms)] {
		list = append(list, RoomUsage{
			User: config.LinuxUser(faultrpc.Clip(u.User)), CPU: time.Duration(u.CpuNanos), Memory: u.MemoryBytes, MemoryPeak: u.MemoryPeakBytes,
			PIDs: int(u.Pids), DiskBytes: u.DiskBytes, DiskFiles: u.DiskFiles, Received: u.ReceivedBytes, Sent: u.SentBytes,
			OOMKills: u.OomKills, Limits: roomLimits(u.Limits), Made: time.Unix(0, u.MadeUnixNano),
		})
	}
	return list, nil
}

// RoomProcesses asks what runs in rooms: in one, or in all for an empty user.
// It says whether there is more.
func (c *Client) RoomProcesses(ctx context.Context, user config.LinuxUser) (list []RoomProcess, more bool, err error) {
	r, err := call(ctx, "ask for the processes of rooms", c.rooms.Processes, &guestpb.ProcessesRequest{User: string(user)})
	if err != nil {
		return nil, false, err
	}
	for _, p := range r.Processes[:min(len(r.Processes), maxProcesses)] {
		list = append(list, RoomProcess{
			User: config.LinuxUser(faultrpc.Clip(p.User)), PID: int(p.Pid), Parent: int(p.Ppid), Command: faultrpc.Clip(string(p.Command)),
			State: faultrpc.Clip(p.State), CPU: time.Duration(p.CpuNanos), Memory: p.ResidentBytes, Started: time.Unix(0, p.StartedUnixNano),
		})
	}
	return list, r.Truncated || len(r.Processes) > maxProcesses, nil
}

// callRoom makes a call about one room, which may take longer than one that
// answers at once.
func callRoom[Q, R any](ctx context.Context, op string, user config.LinuxUser, f func(context.Context, *connect.Request[Q]) (*connect.Response[R], error), q *Q) (*R, error) {
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	r, err := f(ctx, connect.NewRequest(q))
	if err != nil {
		return nil, wire.Decode(op, string(user), err)
	}
	return r.Msg, nil
}

func (r Room) proto() *guestpb.Room {
	network := guestpb.Room_NETWORK_NONE
	if r.Network == config.NetworkOutbound {
		network = guestpb.Room_NETWORK_OUTBOUND
	}
	return &guestpb.Room{User: string(r.User), Uid: r.UID, Home: r.Home, Hostname: r.Hostname, Network: network, Limits: r.Limits.proto()}
}

func (l RoomLimits) proto() *guestpb.Limits {
	return &guestpb.Limits{
		CpuWeight: uint32(l.CPUWeight), CpuMaxMillis: uint32(l.CPUMaxMillis), MemoryBytes: l.Memory, Pids: uint32(l.PIDs),
		DiskBytes: l.DiskBytes, DiskFiles: l.DiskFiles, IoBytesPerSecond: l.DiskBytesPerSecond,
	}
}

func roomLimits(l *guestpb.Limits) RoomLimits {
	return RoomLimits{
		CPUWeight: int(l.GetCpuWeight()), CPUMaxMillis: int(l.GetCpuMaxMillis()), Memory: l.GetMemoryBytes(), PIDs: int(l.GetPids()),
		DiskBytes: l.GetDiskBytes(), DiskFiles: l.GetDiskFiles(), DiskBytesPerSecond: l.GetIoBytesPerSecond(),
	}
}
