package guest

import (
	"context"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/printable"
)

// Info is the guest's own report. It is bounded and safe to print but not trustworthy.
type Info struct {
	Version      string            // of the guest program
	Kernel       string            // release
	Architecture string            // as uname says it
	OSRelease    map[string]string // /etc/os-release
	Uptime       time.Duration
	Time         time.Time // the guest's clock

	MemoryTotal, MemoryAvailable uint64 // bytes
	OwnMemory                    uint64 // resident bytes of the guest program

	Network NetworkState
	Mounts  []Mount
	HasData bool // writes go to a data disk
	// Warnings are errors that did not stop the boot.
	Warnings []string
	Steps    []Step

	Running int    // commands
	Orphans uint64 // processes that lost their parent and were reaped
}

// NetworkState says whether the guest is connected to the gateway.
type NetworkState struct {
	Status  NetworkStatus
	Trouble string // why it failed
}

// NetworkStatus is the result of the network's setup at boot.
type NetworkStatus string

const (
	NetworkOff    NetworkStatus = "none" // none was asked for
	NetworkUp     NetworkStatus = "up"
	NetworkFailed NetworkStatus = "failed"
)

// Mount is a VirtioFS share in the guest.
type Mount struct {
	Tag      string
	Path     string
	ReadOnly bool
}

// Step is a named point of the boot.
type Step struct {
	Name string
	At   time.Duration // since the kernel's start
}

// Info returns the guest's report.
func (c *Client) Info(ctx context.Context) (Info, error) {
	r, err := call(ctx, c, "ask guest for its state", "", c.rpc.Info, &guestpb.InfoRequest{})
	if err != nil {
		return Info{}, err
	}
	i := Info{
		Version: printable.Clip(r.GuestVersion), Kernel: printable.Clip(r.Kernel), Architecture: printable.Clip(r.Architecture),
		OSRelease: map[string]string{},
		Uptime:    time.Duration(r.UptimeNanos), Time: time.Unix(0, r.TimeUnixNano),
		MemoryTotal: r.MemoryTotal, MemoryAvailable: r.MemoryAvailable, OwnMemory: r.OwnMemory,
		Network: networkState(r.GetNetwork()), HasData: r.HasData, Warnings: clipAll(r.Warnings),
		Running: int(r.Running), Orphans: r.OrphansReaped,
	}
	for k, v := range r.OsRelease {
		if len(i.OSRelease) < protocol.MaxList {
			i.OSRelease[printable.Clip(k)] = printable.Clip(v)
		}
	}
	for _, m := range bound(r.Mounts) {
		i.Mounts = append(i.Mounts, Mount{Tag: printable.Clip(m.Tag), Path: printable.Clip(string(m.Path)), ReadOnly: m.ReadOnly})
	}
	for _, s := range bound(r.Steps) {
		i.Steps = append(i.Steps, Step{Name: printable.Clip(s.Name), At: time.Duration(s.UptimeNanos)})
	}
	return i, nil
}

func networkState(n *guestpb.NetworkState) NetworkState {
	status := map[guestpb.NetworkState_State]NetworkStatus{
		guestpb.NetworkState_STATE_NONE: NetworkOff, guestpb.NetworkState_STATE_UP: NetworkUp, guestpb.NetworkState_STATE_FAILED: NetworkFailed,
	}
	s := NetworkState{Status: status[n.GetState()], Trouble: printable.Clip(n.GetTrouble())}
	if s.Status == "" {
		s.Status = NetworkFailed
	}
	return s
}

func bound[T any](list []T) []T { return list[:min(len(list), protocol.MaxList)] }

func clipAll(list []string) []string {
	var out []string
	for _, s := range bound(list) {
		out = append(out, printable.Clip(s))
	}
	return out
}
