//go:build linux

package service

import (
	"context"

	"osaurus-sandbox/guest/job"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/internal/fault"
)

// jobRoom finds where the jobs of a user run.
func (s *Service) jobRoom(ctx context.Context, user string) (job.Room, error) {
	if user == "" {
		logs, err := s.rootLog()
		if err != nil {
			return job.Room{}, fault.New(fault.Execution, "make the folder of logs", "", err)
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
	if err := (rooms{keeper: s.rooms}).usable(user); err != nil {
		return nil, err
	}
	return s.rooms.Get(ctx, user)
}
