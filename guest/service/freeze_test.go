//go:build linux

package service

import (
	"context"
	"testing"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/timetest"
)

// TestSlowFreeze checks that calls are admitted while a slow disk freezes. The host restarts a guest that does
// not answer.
func TestSlowFreeze(t *testing.T) {
	key, booted := protocol.Key{1}, make(chan struct{})
	close(booted)
	began, proceed := make(chan struct{}, 2), make(chan struct{})
	s := &Service{key: &key, booted: booted, data: t.TempDir(), ioctl: func(int, uint, int) error {
		began <- struct{}{}
		<-proceed
		return nil
	}}
	frozen := make(chan error, 1)
	go func() {
		_, err := s.Freeze(context.Background(), &guestpb.FreezeRequest{WithinNanos: int64(time.Minute)})
		frozen <- err
	}()
	<-began
	admitted := make(chan error, 1)
	go func() { admitted <- s.admit(key) }()
	select {
	case err := <-admitted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(timetest.Limit):
		t.Error("calls wait for the disk")
	}
	close(proceed)
	if err := <-frozen; err != nil {
		t.Error(err)
	}
	if _, err := s.Freeze(context.Background(), &guestpb.FreezeRequest{}); err != nil { // thaw
		t.Error(err)
	}
}
