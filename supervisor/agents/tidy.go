package agents

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/supervisor/machine"
)

// tidyEvery is the interval of retries after the guest has refused something.
const tidyEvery = time.Minute

// tidy catches up with what could not be done earlier. When a guest has
// started or answers again, it removes the rooms of deleted agents and applies
// changed settings. When a guest has ended, it revokes tokens.
func (a *Agents) tidy(vm *machine.Machine) {
	var tidied time.Time
	for was, now := range vm.Watch(a.life) { // which changes every few seconds while a guest runs
		another := now.State != was.State || !now.StartedAt.Equal(was.StartedAt)
		if another {
			a.revokeEnded(vm)
		}
		if now.State == machine.Running && (another || time.Since(tidied) >= tidyEvery) {
			tidied = time.Now()
			a.clearAll(vm)
			a.applyAll(vm)
		}
	}
}

// clearAll removes the rooms of deleted agents from a machine.
func (a *Agents) clearAll(vm *machine.Machine) {
	a.mu.Lock()
	users := slices.Collect(maps.Keys(a.remains))
	a.mu.Unlock()
	for _, user := range users {
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

// applyAll applies changed settings to the rooms of a running guest.
func (a *Agents) applyAll(vm *machine.Machine) {
	late := a.members(vm, func(m *member) bool { return m.made.in != nil && !m.hasRoom(m.made, a.Trust()) })
	for _, m := range late {
		if err := a.apply(a.life, m); err != nil && a.life.Err() == nil {
			a.Log.Warn("an agent's settings do not count yet in the guest", "agent", a.agentOf(m).Name, "error", err)
		}
	}
}

// members returns the agents in a machine that fulfil a condition, which is called with the lock held.
func (a *Agents) members(vm *machine.Machine, which func(*member) bool) (list []*member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.byName {
		if a.machine(m) == vm && which(m) {
			list = append(list, m)
		}
	}
	return list
}
