//go:build linux

package service

import (
	"context"
	"errors"

	"osaurus-sandbox/config"
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

// check validates a user and a snapshot's name, and ends what keeps a layer from being frozen.
func (s snapshots) check(user, name string, stop bool) error {
	_, err := config.ParseSnapshotName(name)
	if err := errors.Join(protocol.CheckUser(user), err); err != nil {
		return err
	}
	if stop {
		s.leave(user)
	} else {
		s.leaveFiles(user)
	}
	return nil
}

func (s snapshots) Create(ctx context.Context, r *guestpb.CreateSnapshotRequest) (*guestpb.CreateSnapshotResponse, error) {
	if err := s.check(r.User, r.Name, r.Stop); err != nil {
		return nil, err
	}
	made, err := s.manager.CreateSnapshot(ctx, r)
	return &guestpb.CreateSnapshotResponse{Snapshot: made}, err
}

func (s snapshots) List(ctx context.Context, r *guestpb.ListSnapshotsRequest) (*guestpb.ListSnapshotsResponse, error) {
	if err := protocol.CheckUser(r.User); err != nil {
		return nil, err
	}
	list, err := s.manager.Snapshots(ctx, r.User)
	return &guestpb.ListSnapshotsResponse{Snapshots: list}, err
}

func (s snapshots) Diff(ctx context.Context, r *guestpb.DiffSnapshotRequest) (*guestpb.DiffSnapshotResponse, error) {
	if err := protocol.CheckUser(r.User); err != nil {
		return nil, err
	}
	return s.manager.DiffSnapshot(ctx, r.User, r.Name)
}

func (s snapshots) Restore(ctx context.Context, r *guestpb.RestoreSnapshotRequest) (*guestpb.RestoreSnapshotResponse, error) {
	if err := s.check(r.User, r.Name, r.Stop); err != nil {
		return nil, err
	}
	before, err := s.manager.RestoreSnapshot(ctx, r.User, r.Name, r.Stop)
	return &guestpb.RestoreSnapshotResponse{Before: before}, err
}

func (s snapshots) Delete(ctx context.Context, r *guestpb.DeleteSnapshotRequest) (*guestpb.DeleteSnapshotResponse, error) {
	if err := protocol.CheckUser(r.User); err != nil {
		return nil, err
	}
	return &guestpb.DeleteSnapshotResponse{}, s.manager.DeleteSnapshot(ctx, r.User, r.Name)
}

// Fork gives a new user the root of another one.
func (s snapshots) Fork(ctx context.Context, r *guestpb.ForkRoomRequest) (*guestpb.ForkRoomResponse, error) {
	if err := errors.Join(protocol.CheckUser(r.User), protocol.CheckUser(r.To)); err != nil {
		return nil, err
	}
	if r.ToUid < protocol.MinUID || r.ToUid > protocol.MaxUID || r.To == r.User {
		return nil, fault.Newf(fault.InvalidArgs, "fork room", r.User, "%s with user id %d cannot be a fork of it", r.To, r.ToUid)
	}
	if r.Stop {
		s.leave(r.User)
	} else {
		s.leaveFiles(r.User)
	}
	return &guestpb.ForkRoomResponse{}, s.manager.Fork(ctx, r)
}
