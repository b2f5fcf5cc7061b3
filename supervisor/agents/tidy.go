package agents

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/supervisor/machine"
)

// tidyEvery is how often is tried again what a guest has refused, or the disk of this computer:
// the processes of a deleted agent run until then, and an agent has its old limits.
const tidyEvery = time.Minute

// tidy removes what deleted agents have in a guest, and has changed settings count there,
// whenever one has started or answers again, and has homes follow their agents' names when
// one has ended: whoever begins something in the next guest has the home's path before
// there is a room. It also tries again to write the map of users.
func (a *Agents) tidy() {
	vm := a.Machines.Shared()
	var was machine.Status
	var tidied time.Time
	for status := vm.Status(); ; { // which changes every few seconds while a guest runs
		if a.late.Load() {
			a.keepMap()
		}
		switch status.State {
		case machine.Running:
			if was.State != machine.Running || !status.StartedAt.Equal(was.StartedAt) || time.Since(tidied) >= tidyEvery {
				tidied = time.Now()
				a.clearAll()
				a.applyAll()
			}
		case machine.Stopped, machine.Failed, machine.Starting:
			a.followAll()
		}
		was = status
		next, cancel := context.WithTimeout(a.life, tidyEvery)
		changed, err := vm.Next(next, status.Revision)
		over := next.Err() != nil && a.life.Err() == nil
		cancel()
		switch {
		case err == nil:
			status = changed
		case !over:
			return // the sandbox or this has ended
		}
	}
}

// clearAll removes what deleted agents have in the guest that runs.
func (a *Agents) clearAll() {
	a.mu.Lock()
	users := slices.Collect(maps.Keys(a.remains))
	a.mu.Unlock()
	for _, user := range users {
		vm := a.Machines.Shared()
		if vm.Silent() {
			return // until it answers
		}
		l, ok := vm.Peek()
		if !ok {
			return
		}
		err := a.clear(a.life, l, user)
		l.Release()
		if err != nil && !errors.Is(err, context.Canceled) {
			a.Log.Warn("what a deleted agent has in the guest is not removed yet", "user", user, "error", err)
		}
	}
}

// applyAll has the rooms in the guest that runs be what they shall be by now.
func (a *Agents) applyAll() {
	a.mu.Lock()
	var late []*member
	for _, m := range a.byName {
		if m.made.in != nil && m.made.room != m.room() {
			late = append(late, m)
		}
	}
	a.mu.Unlock()
	for _, m := range late {
		if err := a.apply(a.life, m); err != nil && a.life.Err() == nil {
			a.Log.Warn("an agent's settings do not count yet in the guest", "agent", a.agentOf(m).Name, "error", err)
		}
	}
}
