//go:build linux

package room

import (
	"context"
	"sync/atomic"

	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/internal/fault"
)

// door is where those wait who want something of the same room.
type door struct {
	turn chan struct{} // a lock that can be waited for with a context
	slot int
	gone bool // the room was forgotten
	// room is the last that was made; nil before the first. Who has the turn changes it, and
	// who only looks waits for no turn: to make a room may take long.
	room atomic.Pointer[Room]
}

// enter waits for a user's turn. With add the user may be a new one.
func (k *Keeper) enter(ctx context.Context, user string, add bool) (*door, error) {
	for {
		d, err := k.door(user, add)
		if err != nil {
			return nil, err
		}
		select {
		case d.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !d.gone {
			return d, nil
		}
		d.leave() // for the next who waited
	}
}

// door finds a user's door, or with add makes one.
func (k *Keeper) door(user string, add bool) (*door, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.doors[user]; d != nil {
		return d, nil
	}
	if !add {
		return nil, missing(user)
	}
	if len(k.slots) == network.MaxRooms {
		return nil, fault.Newf(fault.Rejected, "make room", user, "there are %d rooms", network.MaxRooms).Advise("Delete an agent that is not needed any more.")
	}
	for k.slots[k.next] {
		k.pass()
	}
	d := &door{turn: make(chan struct{}, 1), slot: k.next}
	k.doors[user], k.slots[k.next] = d, true
	k.pass()
	return d, nil
}

// pass goes on to the next slot.
func (k *Keeper) pass() { k.next = (k.next + 1) % network.MaxRooms }

func (d *door) leave() { <-d.turn }
