package control

import (
	"context"
	"errors"
	"io"

	"osaurus-sandbox/control/controlpb"
)

// CopyIn writes what copyfiles.Pack packs into an agent's room.
func (c *Client) CopyIn(ctx context.Context, agent, path, name string, pack func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Files.CopyIn(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&controlpb.CopyInRequest{What: &controlpb.CopyInRequest_To{To: &controlpb.CopyInTo{Agent: agent, Path: path, Name: name}}})
	if err == nil {
		err = pack(inChunks(func(b []byte) error {
			return stream.Send(&controlpb.CopyInRequest{What: &controlpb.CopyInRequest_Data{Data: b}})
		}))
	}
	if err != nil && !errors.Is(err, io.EOF) { // with EOF, the answer has the reason
		return err
	}
	_, err = stream.CloseAndReceive()
	return err
}
