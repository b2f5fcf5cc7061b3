//go:build linux

package service

import (
	"context"
	"errors"

	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/job"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
)

// rooms implements the Rooms service.
type rooms struct {
	manager *room.Manager
	// leave ends the user's shells, jobs and file worker before the room is removed.
	leave func(user string)
}

func (s rooms) Ensure(ctx context.Context, r *guestpb.EnsureRequest) (*guestpb.EnsureResponse, error) {
	if err := errors.Join(protocol.CheckRoom(r.Room), protocol.CheckToken(r.Token)); err != nil {
		return nil, err
	}
	return s.manager.Ensure(ctx, r.Room, r.Token)
}

func (s rooms) Reset(ctx context.Context, r *guestpb.ResetRequest) (*guestpb.ResetResponse, error) {
	if err := protocol.CheckUser(r.User); err != nil {
		return nil, err
	}
	s.leave(r.User)
	return &guestpb.ResetResponse{}, s.manager.Remove(ctx, r.User, true)
}

func (s rooms) Remove(ctx context.Context, r *guestpb.RemoveRequest) (*guestpb.RemoveResponse, error) {
	if err := protocol.CheckUser(r.User); err != nil {
		return nil, err
	}
	s.leave(r.User)
	err := s.manager.Remove(ctx, r.User, r.Layer)
	if err == nil && r.Layer {
		err = s.manager.DiscardReviews(r.User, "")
	}
	return &guestpb.RemoveResponse{}, err
}

func (s rooms) Usage(_ context.Context, r *guestpb.UsageRequest) (*guestpb.UsageResponse, error) {
	if err := protocol.CheckOwner(r.User); err != nil {
		return nil, err
	}
	list, err := s.manager.Usage(r.User)
	return &guestpb.UsageResponse{Rooms: list}, err
}

func (s rooms) Processes(_ context.Context, r *guestpb.ProcessesRequest) (*guestpb.ProcessesResponse, error) {
	if err := protocol.CheckOwner(r.User); err != nil {
		return nil, err
	}
	list, more, err := s.manager.Processes(r.User, r.Folder)
	return &guestpb.ProcessesResponse{Processes: list, Truncated: more}, err
}

// fileRoom returns the room for a user's file operations.
func (s *Service) fileRoom(ctx context.Context, user string) (files.Room, error) {
	r, err := s.find(ctx, user)
	if fault.KindOf(err) == fault.NotFound { // the caller would take NotFound for a missing file
		return files.Room{}, fault.New(fault.Unavailable, "touch files", user, err).Advise("The agent has been reset or deleted: try again.")
	}
	if err != nil {
		return files.Room{}, err
	}
	return files.Room{Place: r.HiddenPlace(), Env: r.Environment(false), Dead: r.Dead(), Program: s.rooms.Program()}, nil
}

// jobRoom returns the room for a user's jobs.
func (s *Service) jobRoom(ctx context.Context, user string) (job.Room, error) {
	if user == "" {
		logs, err := s.rootLog()
		if err != nil {
			return job.Room{}, fault.New(fault.Execution, "create the folder for logs", "", err)
		}
		return job.Room{Env: protocol.RootEnvironment(), Home: protocol.RootHome, Logs: logs, LogsInside: logs, Met: func(bool) (bool, bool) { return false, false }}, nil
	}
	r, err := s.find(ctx, user)
	if err != nil {
		return job.Room{}, err
	}
	before := r.Marks()
	logs, inside := r.JobLogs()
	return job.Room{Place: r.Place(false), Plugin: r.PluginPlace, Env: r.Environment(false), Home: r.Home(), Logs: logs, LogsInside: inside, Met: func(killed bool) (oom, pids bool) {
		oom, pids, _ = r.Met(before, killed)
		return oom, pids
	}}, nil
}

// find returns the room of a user.
func (s *Service) find(ctx context.Context, user string) (*room.Room, error) {
	if err := protocol.CheckUser(user); err != nil {
		return nil, err
	}
	return s.rooms.Get(ctx, user)
}
