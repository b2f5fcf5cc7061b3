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
	Version   string            // of the guest program
	Kernel    string            // release
	OSRelease map[string]string // /etc/os-release
	Uptime    time.Duration
	Time      time.Time // the guest's clock

	MemoryTotal, MemoryAvailable uint64 // bytes
	OwnMemory                    uint64 // resident bytes of the guest program

	Network        NetworkStatus
	NetworkTrouble string // why it failed
	Mounts         []*guestpb.Mount
	HasData        bool // writes go to a data disk
	// Warnings are errors that did not stop the boot.
	Warnings []string

	Running int    // commands
	Orphans uint64 // processes that lost their parent and were reaped
}

// NetworkStatus is the result of the network's setup at boot.
type NetworkStatus string

const (
	NetworkOff    NetworkStatus = "none" // none was asked for
	NetworkUp     NetworkStatus = "up"
	NetworkFailed NetworkStatus = "failed"
)

// Info returns the guest's report.
func (c *Client) Info(ctx context.Context) (Info, error) {
	r, err := call(ctx, c, "ask guest for its state", "", c.rpc.Info, &guestpb.InfoRequest{})
	if err != nil {
		return Info{}, err
	}
	i := Info{
		Version: printable.Clip(r.GuestVersion), Kernel: printable.Clip(r.Kernel),
		OSRelease: map[string]string{},
		Uptime:    time.Duration(r.UptimeNanos), Time: time.Unix(0, r.TimeUnixNano),
		MemoryTotal: r.MemoryTotal, MemoryAvailable: r.MemoryAvailable, OwnMemory: r.OwnMemory,
		Network: NetworkStatus(printable.Clip(r.Network)), NetworkTrouble: printable.Clip(r.NetworkTrouble),
		Mounts: bound(r.Mounts), HasData: r.HasData, Warnings: clipAll(r.Warnings),
		Running: int(r.Running), Orphans: r.OrphansReaped,
	}
	for k, v := range r.OsRelease {
		if len(i.OSRelease) < protocol.MaxList {
			i.OSRelease[printable.Clip(k)] = printable.Clip(v)
		}
	}
	for _, m := range i.Mounts {
		m.Tag, m.Path = printable.Clip(m.Tag), []byte(printable.Clip(string(m.Path)))
	}
	return i, nil
}

func bound[T any](list []T) []T { return list[:min(len(list), protocol.MaxList)] }

func clipAll(list []string) []string {
	var out []string
	for _, s := range bound(list) {
		out = append(out, printable.Clip(s))
	}
	return out
}
