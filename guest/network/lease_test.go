//go:build linux

package network

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailedRenewal checks that a failed renewal is tried again.
func TestFailedRenewal(t *testing.T) {
	failed := errors.New("failed")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var noted []error
		turn := 0
		err := keep(ctx, func() (lease, error) {
			switch turn++; turn {
			case 2:
				return lease{}, failed
			case 3:
				cancel()
			}
			return lease{duration: time.Hour}, nil
		}, func(err error) { noted = append(noted, err) })
		if err != nil || turn != 3 || len(noted) != 1 {
			t.Errorf("%v after %d turns, noted %v", err, turn, noted)
		}
	})
	if err := keep(t.Context(), func() (lease, error) { return lease{}, failed }, nil); !errors.Is(err, failed) {
		t.Errorf("without a lease: %v", err)
	}
}
