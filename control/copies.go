package control

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
)

// upload makes a call with a first message and then with what write writes, and returns the answer.
func upload[Req, Resp any](ctx context.Context, open func(context.Context) (*connect.ClientStreamForClientSimple[Req, Resp], error), first *Req, data func([]byte) *Req, write func(io.Writer) error) (*Resp, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if err = stream.Send(first); err == nil {
		err = write(inChunks(func(b []byte) error { return stream.Send(data(b)) }))
	}
	if err != nil && !errors.Is(err, io.EOF) { // with EOF, the answer has the reason
		return nil, err
	}
	return stream.CloseAndReceive()
}

// CopyIn writes what copyfiles.Pack packs into an agent's room.
func (c *Client) CopyIn(ctx context.Context, agent, path, name string, pack func(io.Writer) error) error {
	to := &controlpb.CopyInRequest_To{To: &controlpb.CopyInTo{Agent: agent, Path: path, Name: name}}
	_, err := upload(ctx, c.Files.CopyIn, &controlpb.CopyInRequest{What: to}, func(b []byte) *controlpb.CopyInRequest {
		return &controlpb.CopyInRequest{What: &controlpb.CopyInRequest_Data{Data: b}}
	}, pack)
	return err
}

// ImportAgent makes a new agent of an archive and returns its name. How has no data.
func (c *Client) ImportAgent(ctx context.Context, how *controlpb.ImportAgentRequest, archive io.Reader) (name string, err error) {
	r, err := upload(ctx, c.Backups.Import, how, func(b []byte) *controlpb.ImportAgentRequest { return &controlpb.ImportAgentRequest{Data: b} }, func(to io.Writer) error {
		_, err := io.Copy(to, archive)
		return err
	})
	return r.GetName(), err
}
