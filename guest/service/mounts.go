//go:build linux

package service

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/mount"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
)

// mounts implements the Mounts service.
type mounts struct {
	manager *mount.Manager
	find    func(ctx context.Context, user string) (*room.Room, error)
}

func (s mounts) Mount(ctx context.Context, r *guestpb.MountRequest) (*guestpb.MountResponse, error) {
	in, err := s.find(ctx, r.GetUser())
	if err == nil {
		err = protocol.CheckMount(r, in.Home())
	}
	if err != nil {
		return nil, err
	}
	return &guestpb.MountResponse{}, s.manager.Mount(ctx, in, r)
}

func (s mounts) Unmount(ctx context.Context, r *guestpb.UnmountRequest) (*guestpb.UnmountResponse, error) {
	if err := protocol.CheckMountName(r.GetUser(), r.GetName()); err != nil {
		return nil, err
	}
	return &guestpb.UnmountResponse{}, s.manager.Unmount(ctx, r.User, r.Name, r.Forget)
}

func (s mounts) Changes(ctx context.Context, r *guestpb.ChangesRequest, stream *connect.ServerStream[guestpb.ChangesResponse]) error {
	if err := protocol.CheckMountName(r.GetUser(), r.GetName()); err != nil {
		return err
	}
	return s.manager.Changes(r.User, r.Name, func(list []*guestpb.Change) error {
		return errors.Join(ctx.Err(), stream.Send(&guestpb.ChangesResponse{Changes: list}))
	})
}

func (s mounts) ReadChange(_ context.Context, r *guestpb.ReadChangeRequest, stream *connect.ServerStream[guestpb.ReadChangeResponse]) error {
	if err := errors.Join(protocol.CheckMountName(r.GetUser(), r.GetName()), protocol.CheckChangePath(r.GetPath())); err != nil {
		return err
	}
	return s.manager.ReadChange(r.User, r.Name, string(r.Path), func(data []byte) error {
		return stream.Send(&guestpb.ReadChangeResponse{Data: data})
	})
}
