//go:build linux

package network

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// deaf is a network on which nothing can be sent.
type deaf struct {
	net.PacketConn
	asked atomic.Int32
}

func (d *deaf) WriteTo([]byte, net.Addr) (int, error) {
	d.asked.Add(1)
	return 0, unix.ENETDOWN
}

// TestNetworkDown: where nothing can be sent, it is not tried all the time.
func TestNetworkDown(t *testing.T) {
	const a, many = time.Second, 100
	ctx, cancel := context.WithTimeout(t.Context(), a)
	defer cancel()
	var d deaf
	if _, err := (client{conn: &d, ifc: &net.Interface{HardwareAddr: mac}}).acquire(ctx); !errors.Is(err, unix.ENETDOWN) {
		t.Error(err)
	}
	if n := d.asked.Load(); n == 0 || n > many {
		t.Errorf("asked %d times within %v", n, a)
	}
}

// TestFailedRenewal: a lease is renewed again after a renewal that failed.
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
