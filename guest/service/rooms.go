//go:build linux

package service

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/guest/room"
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
		return fault.New(fault.Unavailable, "find room", user, errors.New("this guest makes no rooms"))
	}
	return wire.CheckUser(user)
}

// countable is usable where no name means all of them.
func (s rooms) countable(user string) error {
	if user == "" && s.keeper != nil {
		return nil
	}
	return s.usable(user)
}

func (s rooms) Ensure(ctx context.Context, r *connect.Request[guestpb.EnsureRequest]) (*connect.Response[guestpb.EnsureResponse], error) {
	if err := wire.CheckRoom(r.Msg.Room); err != nil {
		return nil, err
	}
	if err := s.usable(r.Msg.Room.User); err != nil {
		return nil, err
	}
	if err := wire.CheckToken(r.Msg.Token); err != nil {
		return nil, err
	}
	answer, err := s.keeper.Ensure(ctx, r.Msg.Room, r.Msg.Token)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(answer), nil
}

func (s rooms) SetLimits(ctx context.Context, r *connect.Request[guestpb.SetLimitsRequest]) (*connect.Response[guestpb.SetLimitsResponse], error) {
	if err := errors.Join(s.usable(r.Msg.User), wire.CheckLimits(r.Msg.Limits)); err != nil {
		return nil, err
	}
	return answer(&guestpb.SetLimitsResponse{}, s.keeper.SetLimits(ctx, r.Msg.User, r.Msg.Limits))
}

func (s rooms) Reset(ctx context.Context, r *connect.Request[guestpb.ResetRequest]) (*connect.Response[guestpb.ResetResponse], error) {
	if err := s.usable(r.Msg.User); err != nil {
		return nil, err
	}
	s.leave(r.Msg.User)
	return answer(&guestpb.ResetResponse{}, s.keeper.Remove(ctx, r.Msg.User, true))
}

func (s rooms) Remove(ctx context.Context, r *connect.Request[guestpb.RemoveRequest]) (*connect.Response[guestpb.RemoveResponse], error) {
	if err := s.usable(r.Msg.User); err != nil {
		return nil, err
	}
	s.leave(r.Msg.User)
	return answer(&guestpb.RemoveResponse{}, s.keeper.Remove(ctx, r.Msg.User, r.Msg.Layer))
}

func (s rooms) Usage(_ context.Context, r *connect.Request[guestpb.UsageRequest]) (*connect.Response[guestpb.UsageResponse], error) {
	if err := s.countable(r.Msg.User); err != nil {
		return nil, err
	}
	list, err := s.keeper.Usage(r.Msg.User)
	return answer(&guestpb.UsageResponse{Rooms: list}, err)
}

func (s rooms) Processes(_ context.Context, r *connect.Request[guestpb.ProcessesRequest]) (*connect.Response[guestpb.ProcessesResponse], error) {
	if err := s.countable(r.Msg.User); err != nil {
		return nil, err
	}
	list, more, err := s.keeper.Processes(r.Msg.User)
	return answer(&guestpb.ProcessesResponse{Processes: list, Truncated: more}, err)
}
