//go:build linux

package service

import (
	"context"
	"errors"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
)

// rooms answers the service Rooms.
type rooms struct {
	keeper *room.Keeper
	// leave ends what the guest keeps running for a user, before the room goes.
	leave func(user string)
}

// usable says whether there are rooms, and whether a user's name could be one's.
func (s rooms) usable(user string) error {
	if s.keeper == nil {
		return fault.Newf(fault.Unavailable, "find room", user, "this guest makes no rooms")
	}
	return protocol.CheckUser(user)
}

// countable is usable where no name means all of them.
func (s rooms) countable(user string) error {
	if user == "" && s.keeper != nil {
		return nil
	}
	return s.usable(user)
}

func (s rooms) Ensure(ctx context.Context, r *guestpb.EnsureRequest) (*guestpb.EnsureResponse, error) {
	if err := protocol.CheckRoom(r.Room); err != nil {
		return nil, err
	}
	if err := s.usable(r.Room.User); err != nil {
		return nil, err
	}
	if err := protocol.CheckToken(r.Token); err != nil {
		return nil, err
	}
	return s.keeper.Ensure(ctx, r.Room, r.Token)
}

func (s rooms) SetLimits(ctx context.Context, r *guestpb.SetLimitsRequest) (*guestpb.SetLimitsResponse, error) {
	if err := errors.Join(s.usable(r.User), protocol.CheckLimits(r.Limits)); err != nil {
		return nil, err
	}
	return &guestpb.SetLimitsResponse{}, s.keeper.SetLimits(ctx, r.User, r.Limits)
}

func (s rooms) Reset(ctx context.Context, r *guestpb.ResetRequest) (*guestpb.ResetResponse, error) {
	if err := s.usable(r.User); err != nil {
		return nil, err
	}
	s.leave(r.User)
	return &guestpb.ResetResponse{}, s.keeper.Remove(ctx, r.User, true)
}

func (s rooms) Remove(ctx context.Context, r *guestpb.RemoveRequest) (*guestpb.RemoveResponse, error) {
	if err := s.usable(r.User); err != nil {
		return nil, err
	}
	s.leave(r.User)
	return &guestpb.RemoveResponse{}, s.keeper.Remove(ctx, r.User, r.Layer)
}

func (s rooms) Usage(_ context.Context, r *guestpb.UsageRequest) (*guestpb.UsageResponse, error) {
	if err := s.countable(r.User); err != nil {
		return nil, err
	}
	list, err := s.keeper.Usage(r.User)
	return &guestpb.UsageResponse{Rooms: list}, err
}

func (s rooms) Processes(_ context.Context, r *guestpb.ProcessesRequest) (*guestpb.ProcessesResponse, error) {
	if err := s.countable(r.User); err != nil {
		return nil, err
	}
	list, more, err := s.keeper.Processes(r.User)
	return &guestpb.ProcessesResponse{Processes: list, Truncated: more}, err
}
