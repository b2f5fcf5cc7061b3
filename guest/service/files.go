//go:build linux

package service

import (
	"context"

	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/internal/fault"
)

// fileRoom finds where the files of a user are touched.
func (s *Service) fileRoom(ctx context.Context, user string) (files.Room, error) {
	r, err := s.find(ctx, user)
	if fault.KindOf(err) == fault.NotFound { // which would be taken for the file's
		return files.Room{}, fault.New(fault.Unavailable, "touch files", user, err).Advise("The agent was reset or deleted meanwhile: try again.")
	}
	if err != nil {
		return files.Room{}, err
	}
	return files.Room{Place: r.HiddenPlace(), Env: r.Environment(false), Dead: r.Dead(), Program: s.rooms.Program()}, nil
}
