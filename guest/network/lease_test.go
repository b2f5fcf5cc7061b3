//go:build linux

package network

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
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
	if _, err := (client{conn: &d, ifc: &net.Interface{HardwareAddr: mac}}).acquire(ctx, nil); !errors.Is(err, unix.ENETDOWN) {
		t.Error(err)
	}
	if n := d.asked.Load(); n == 0 || n > many {
		t.Errorf("asked %d times within %v", n, a)
	}
}

// TestFailedRenewal: a lease is kept, and renewed, also after a renewal that failed.
func TestFailedRenewal(t *testing.T) {
	failed := errors.New("failed")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var noted []error
	turn := 0
	err := keep(ctx, func(last *lease) (lease, error) {
		turn++
		got := lease{duration: time.Duration(turn)}
		switch turn {
		case 1:
			if last != nil {
				t.Error("a first lease is renewed")
			}
		case 2, 3:
			if last == nil || last.duration != 1 {
				t.Errorf("turn %d: %+v is renewed", turn, last)
			}
			if turn == 2 {
				return got, failed
			}
		case 4:
			if last == nil || last.duration != 3 {
				t.Errorf("turn %d: %+v is renewed", turn, last)
			}
			cancel()
			return got, ctx.Err()
		}
		return got, nil
	}, func(err error) { noted = append(noted, err) })
	if err != nil || len(noted) == 0 || !errors.Is(noted[0], failed) {
		t.Errorf("%v, noted %v", err, noted)
	}
	if err := keep(t.Context(), func(*lease) (lease, error) { return lease{}, failed }, nil); !errors.Is(err, failed) {
		t.Errorf("without a lease: %v", err)
	}
}
