//go:build linux

package service

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/shell"
	"osaurus-sandbox/internal/fault"
)

// shells implements the Shells service. The embedded Manager implements all methods except Attach.
type shells struct{ *shell.Manager }

// Attach connects a person's terminal to a shell.
func (s shells) Attach(ctx context.Context, stream *connect.BidiStream[guestpb.ShellAttachRequest, guestpb.ShellAttachResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	v, err := s.Manager.Attach(ctx, first.GetOpen())
	if err != nil {
		return err
	}
	defer v.Close()
	ctx, detach := context.WithCancel(ctx)
	defer detach()
	go func() {
		defer detach()
		for {
			m, err := stream.Receive()
			if err != nil {
				return // the person has left
			}
			if r := m.GetResize(); r != nil {
				err = v.Resize(r)
			} else {
				err = v.Type(ctx, m.GetInput())
			}
			if err != nil && fault.KindOf(err) != fault.InvalidArgs {
				return
			}
		}
	}()
	// Send a first answer at once, even if there is no output yet.
	if err := stream.Send(shown(nil)); err != nil {
		return err
	}
	for {
		b, ended, err := v.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return stream.Send(&guestpb.ShellAttachResponse{What: &guestpb.ShellAttachResponse_Ended{Ended: ended}})
		case err != nil:
			return err
		}
		if err := stream.Send(shown(b)); err != nil {
			return err
		}
	}
}

func shown(b []byte) *guestpb.ShellAttachResponse {
	return &guestpb.ShellAttachResponse{What: &guestpb.ShellAttachResponse_Output{Output: b}}
}
