package guest

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/printable"
)

// roomTimeout bounds making and ending a room. On a busy emulated processor that takes seconds.
const roomTimeout = time.Minute

// HomesDir is the guest's folder of agent homes.
const HomesDir = protocol.HomesDir

// SharedDir is the folder in the guest that all agents share.
const SharedDir = protocol.SharedDir

// SystemPath is the guest's default PATH.
const SystemPath = protocol.SystemPath

// Room implements engine.Engine.
func (c *Client) Room(user config.LinuxUser) engine.Room { return room{c, user} }

// room is a user's room in the guest.
type room struct {
	*Client
	user config.LinuxUser
}

// EnsureRoom implements engine.Engine.
func (c *Client) EnsureRoom(ctx context.Context, r engine.RoomConfig, token string) (engine.Ensured, error) {
	a, err := c.rooms.Ensure(within(ctx, roomTimeout), &guestpb.EnsureRequest{Room: roomProto(r), Token: []byte(token)})
	if err != nil {
		return engine.Ensured{}, err
	}
	return engine.Ensured{Made: a.Made, Anew: a.Anew, Lacks: clipAll(a.Warnings)}, nil
}

// ResetRoom implements engine.Engine.
func (c *Client) ResetRoom(ctx context.Context, user config.LinuxUser) error {
	_, err := c.rooms.Reset(within(ctx, roomTimeout), &guestpb.ResetRequest{User: string(user)})
	c.closeIdle()
	return err
}

// RemoveRoom implements engine.Engine.
func (c *Client) RemoveRoom(ctx context.Context, user config.LinuxUser, layer bool) error {
	_, err := c.rooms.Remove(within(ctx, roomTimeout), &guestpb.RemoveRequest{User: string(user), Layer: layer})
	c.closeIdle()
	return err
}

// RoomUsages implements engine.Engine.
func (c *Client) RoomUsages(ctx context.Context, user config.LinuxUser) ([]engine.RoomUsage, error) {
	a, err := c.rooms.Usage(ctx, &guestpb.UsageRequest{User: string(user)})
	if err != nil {
		return nil, err
	}
	var list []engine.RoomUsage
	for _, u := range a.Rooms {
		list = append(list, engine.RoomUsage{
			User: printable.Clip(u.GetUser()), CPU: time.Duration(u.GetCpuNanos()), Memory: u.GetMemoryBytes(), MemoryPeak: u.GetMemoryPeakBytes(),
			PIDs: u.GetPids(), Disk: u.GetDiskBytes(), DiskFiles: u.GetDiskFiles(), Received: u.GetReceivedBytes(), Sent: u.GetSentBytes(),
			OOMKills: u.GetOomKills(), Limits: limitsOf(u.GetLimits()), Made: time.Unix(0, u.GetMadeUnixNano()),
		})
	}
	return list, nil
}

// RoomProcesses implements engine.Engine.
func (c *Client) RoomProcesses(ctx context.Context, user config.LinuxUser, folder string) (list []engine.RoomProcess, more bool, err error) {
	a, err := c.rooms.Processes(ctx, &guestpb.ProcessesRequest{User: string(user), Folder: folder})
	if err != nil {
		return nil, false, err
	}
	for _, p := range a.Processes {
		process := engine.RoomProcess{
			User: printable.Clip(p.GetUser()), PID: p.GetPid(), PPID: p.GetPpid(), Command: printable.Clip(string(p.GetCommand())),
			State: printable.Clip(p.GetState()), CPU: time.Duration(p.GetCpuNanos()), Resident: p.GetResidentBytes(), Started: time.Unix(0, p.GetStartedUnixNano()),
		}
		for _, path := range p.GetOpen() {
			process.Open = append(process.Open, string(path))
		}
		list = append(list, process)
	}
	return list, a.Truncated, nil
}

func roomProto(r engine.RoomConfig) *guestpb.Room {
	room := &guestpb.Room{User: string(r.User), Uid: r.UID, Home: r.Home, Hostname: r.Hostname, Address: r.Address.AsSlice(), Limits: limitsProto(r.Limits)}
	if r.Trust != nil {
		room.Trust = &guestpb.Trust{Certificate: []byte(r.Trust.Certificate), Environment: r.Trust.Environment}
	}
	return room
}

func limitsProto(l engine.Limits) *guestpb.Limits {
	return &guestpb.Limits{
		CpuWeight: l.CPUWeight, CpuMaxMillis: l.CPUMaxMillis, MemoryBytes: l.Memory, Pids: l.PIDs,
		DiskBytes: l.Disk, DiskFiles: l.DiskFiles, IoBytesPerSecond: l.IO,
	}
}

func limitsOf(l *guestpb.Limits) engine.Limits {
	return engine.Limits{
		CPUWeight: l.GetCpuWeight(), CPUMaxMillis: l.GetCpuMaxMillis(), Memory: l.GetMemoryBytes(), PIDs: l.GetPids(),
		Disk: l.GetDiskBytes(), DiskFiles: l.GetDiskFiles(), IO: l.GetIoBytesPerSecond(),
	}
}
