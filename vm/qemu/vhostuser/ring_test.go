//go:build linux

package vhostuser

import (
	"log/slog"
	"testing"
)

// The room that a chain of many buffers took is not kept for the next.
func TestLongChainsAreNotKept(t *testing.T) {
	q := newQueue(0, &health{}, slog.New(slog.DiscardHandler), nil)
	for buffers, kept := range map[int]int{2: 1, maxQueueSize: 0} {
		c := q.spareChain()
		c.In, c.mem, c.epoch = make([][]byte, buffers), &memory{}, q.epoch
		q.inflight++
		q.drop(c)
		if len(q.spare) != kept {
			t.Errorf("after a chain of %d buffers %d are kept", buffers, len(q.spare))
		}
		q.spare = nil
	}
}
