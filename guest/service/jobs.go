//go:build linux

package service

import (
	"context"
	"syscall"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/guest/job"
	"osaurus-sandbox/guest/room"
)

// jobs answers the service Jobs.
type jobs struct{ keeper *job.Keeper }

func (s jobs) StartJob(ctx context.Context, r *guestpb.StartJobRequest) (*guestpb.StartJobResponse, error) {
	j, err := s.keeper.Start(ctx, r)
	return &guestpb.StartJobResponse{Job: j}, err
}

func (s jobs) ListJobs(_ context.Context, r *guestpb.ListJobsRequest) (*guestpb.ListJobsResponse, error) {
	return &guestpb.ListJobsResponse{Jobs: s.keeper.List(r.User)}, nil
}

func (s jobs) PollJob(_ context.Context, r *guestpb.PollJobRequest) (*guestpb.PollJobResponse, error) {
	j, err := s.keeper.Poll(r.User, r.Id)
	return &guestpb.PollJobResponse{Job: j}, err
}

func (s jobs) WaitJob(ctx context.Context, r *guestpb.WaitJobRequest) (*guestpb.WaitJobResponse, error) {
	j, err := s.keeper.Wait(ctx, r)
	return &guestpb.WaitJobResponse{Job: j}, err
}

func (s jobs) KillJob(_ context.Context, r *guestpb.KillJobRequest) (*guestpb.KillJobResponse, error) {
	j, err := s.keeper.Kill(r)
	return &guestpb.KillJobResponse{Job: j}, err
}

func (s jobs) TailJob(ctx context.Context, r *guestpb.TailJobRequest) (*guestpb.TailJobResponse, error) {
	return s.keeper.Tail(ctx, r)
}

// jobRoom finds where the jobs of a user run.
func (s *Service) jobRoom(ctx context.Context, user string) (job.Room, error) {
	if user == "" {
		logs, err := s.rootLog()
		if err != nil {
			return job.Room{}, fault.New(fault.Execution, "make the folder of logs", "", err)
		}
		return job.Room{Env: wire.RootEnvironment(), Home: wire.RootHome, Logs: logs, LogsInside: logs, Met: func(syscall.WaitStatus) (bool, bool) { return false, false }}, nil
	}
	r, err := s.find(ctx, user)
	if err != nil {
		return job.Room{}, err
	}
	before := r.Marks()
	logs, inside := r.JobLogs()
	return job.Room{Place: r.Place(false), Plugin: r.PluginPlace, Env: r.Environment(false), Home: r.Home(), Logs: logs, LogsInside: inside, Met: func(end syscall.WaitStatus) (oom, pids bool) {
		oom, pids, _ = r.Met(before, end)
		return oom, pids
	}}, nil
}

// find returns the room of a user.
func (s *Service) find(ctx context.Context, user string) (*room.Room, error) {
	if err := (rooms{keeper: s.rooms}).usable(user); err != nil {
		return nil, err
	}
	return s.rooms.Get(ctx, user)
}
