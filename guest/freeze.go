package guest

import (
	"context"
	"time"

	"osaurus-sandbox/guest/guestpb"
)

// Freeze writes everything to the data disk and makes writers wait until Thaw, or until the time is
// over. Meanwhile the image file is what a mount expects.
func (c *Client) Freeze(ctx context.Context, within time.Duration) error {
	_, err := call(ctx, c, "freeze disk", "", c.rpc.Freeze, &guestpb.FreezeRequest{WithinNanos: int64(within)})
	return err
}

// Thaw ends a Freeze. It fails if the disk was not frozen all the time.
func (c *Client) Thaw(ctx context.Context) error {
	_, err := call(ctx, c, "thaw disk", "", c.rpc.Freeze, &guestpb.FreezeRequest{})
	return err
}
