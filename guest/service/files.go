//go:build linux

package service

import (
	"context"

	"osaurus-sandbox/guest/files"
)

// fileRoom finds where the files of a user are touched.
func (s *Service) fileRoom(ctx context.Context, user string) (files.Room, error) {
	r, err := s.find(ctx, user)
	if err != nil {
		return files.Room{}, err
	}
	return files.Room{Place: r.HiddenPlace(), Env: r.Environment(false), Dead: r.Dead(), Program: s.rooms.Program()}, nil
}
