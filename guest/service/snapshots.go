//go:build linux

package service

import (
	"context"
	"errors"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
)

// snapshots implements the Snapshots service.
type snapshots struct {
	manager *room.Manager
	// leave ends the user's shells, jobs and file worker; leaveFiles only the worker, which no person
	// knows of.
	leave, leaveFiles func(user string)
}

// letGo ends what keeps a layer from being frozen.
func (s snapshots) letGo(user string, stop bool) {
	if s.leaveFiles(user); stop {
		s.leave(user)
	}
}

func (s snapshots) Change(ctx context.Context, r *guestpb.ChangeSnapshotRequest) (*guestpb.ChangeSnapshotResponse, error) {
	_, err := config.ParseSnapshotName(r.Name)
	if err := errors.Join(protocol.CheckUser(r.User), err); err != nil {
		return nil, err
	}
	if engine.SnapshotAction(r.Action) != engine.DeleteSnapshot {
		s.letGo(r.User, r.Stop)
	}
	made, err := s.manager.ChangeSnapshot(ctx, r)
	return &guestpb.ChangeSnapshotResponse{Snapshot: made}, err
}

func (s snapshots) List(ctx context.Context, r *guestpb.ListSnapshotsRequest) (*guestpb.ListSnapshotsResponse, error) {
	list, err := s.manager.Snapshots(ctx, r.User)
	return &guestpb.ListSnapshotsResponse{Snapshots: list}, err
}

func (s snapshots) Diff(ctx context.Context, r *guestpb.DiffSnapshotRequest) (*guestpb.DiffSnapshotResponse, error) {
	list, err := s.manager.DiffSnapshot(ctx, r.User, r.Name)
	return &guestpb.DiffSnapshotResponse{Changes: list}, err
}

// Fork gives a new user the root of another one.
func (s snapshots) Fork(ctx context.Context, r *guestpb.ForkRoomRequest) (*guestpb.ForkRoomResponse, error) {
	if err := errors.Join(protocol.CheckUser(r.User), protocol.CheckUser(r.To)); err != nil {
		return nil, err
	}
	if r.ToUid < protocol.MinUID || r.ToUid > protocol.MaxUID || r.To == r.User {
		return nil, fault.Newf(fault.InvalidArgs, "fork room", r.User, "%s with user id %d cannot be a fork of it", r.To, r.ToUid)
	}
	s.letGo(r.User, r.Stop)
	return &guestpb.ForkRoomResponse{}, s.manager.Fork(ctx, r)
}
