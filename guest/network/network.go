//go:build linux

// Package network configures the guest's network by DHCP and connects rooms to it.
package network

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/guest/guestpb"
)

// Settings are the IP settings of an interface.
type Settings struct {
	Address netip.Prefix
	Gateway netip.Addr // invalid if there is none
	DNS     []netip.Addr
}

// Network is the guest's network. The zero value is a guest without a network.
type Network struct {
	mu    sync.Mutex
	state *guestpb.NetworkState // nil before Start
}

// Loopback sets the loopback interface up.
func Loopback() error { return up("lo") }

// Start configures the network in the background, and renews its lease until the context ends. The
// returned channel is closed when the first attempt has succeeded or failed for
// good. Start calls publish with the settings that are in use.
func (n *Network) Start(ctx context.Context, hostname string, publish func(Settings)) <-chan struct{} {
	settled := make(chan struct{})
	n.set(&guestpb.NetworkState{State: guestpb.NetworkState_STATE_PENDING, Trouble: "no answer yet"})
	go func() {
		settle := sync.OnceFunc(func() { close(settled) })
		defer settle()
		ifc, err := first()
		if err == nil {
			err = up(ifc.Name)
		}
		var last netip.Prefix
		if err == nil {
			err = keep(ctx, func() (lease, error) {
				got, err := acquire(ctx, ifc, hostname)
				if err != nil {
					return got, err
				}
				if err := errors.Join(fence(got.Address), apply(ifc.Name, got.Settings, last)); err != nil {
					return got, err
				}
				last = got.Address
				publish(got.Settings)
				n.set(got.state())
				settle()
				return got, nil
			}, n.note)
		}
		if err != nil {
			n.set(&guestpb.NetworkState{State: guestpb.NetworkState_STATE_FAILED, Trouble: err.Error()})
		}
	}()
	return settled
}

// State returns the state of the network.
func (n *Network) State() *guestpb.NetworkState {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nil {
		return &guestpb.NetworkState{}
	}
	return proto.CloneOf(n.state)
}

func (n *Network) set(s *guestpb.NetworkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = s
}

// note records an error of a network that is still up.
func (n *Network) note(err error) {
	s := n.State()
	s.Trouble = err.Error()
	n.set(s)
}

func (s Settings) state() *guestpb.NetworkState {
	st := &guestpb.NetworkState{State: guestpb.NetworkState_STATE_UP, Address: s.Address.String()}
	if s.Gateway.IsValid() {
		st.Gateway = s.Gateway.String()
	}
	for _, a := range s.DNS {
		st.Dns = append(st.Dns, a.String())
	}
	return st
}

// keep gets a lease and renews it until the context ends. It reports a failed renewal to note and
// retries after the same time.
func keep(ctx context.Context, get func() (lease, error), note func(error)) error {
	last, err := get()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(last.duration / 2): // RFC 2131's T1
		}
		if got, err := get(); err == nil {
			last = got
		} else {
			note(err)
		}
	}
}
