package guest

import (
	"context"
	"maps"
	"slices"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/printable"
)

// Info is the guest's own report. It is bounded and safe to print but not trustworthy.
type Info = guestpb.InfoResponse

// Info returns the guest's report.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	i, err := c.rpc.Info(ctx, &guestpb.InfoRequest{})
	if err != nil {
		return nil, err
	}
	for _, text := range []*string{&i.GuestVersion, &i.Kernel, &i.Network, &i.NetworkTrouble} {
		*text = printable.Clip(*text)
	}
	release := map[string]string{}
	for _, name := range bound(slices.Sorted(maps.Keys(i.OsRelease))) {
		release[printable.Clip(name)] = printable.Clip(i.OsRelease[name])
	}
	i.OsRelease, i.Warnings, i.Mounts = release, clipAll(i.Warnings), bound(i.Mounts)
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
