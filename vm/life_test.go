package vm_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/vm"
)

func TestLifeTellsEachWatcherAllInOrder(t *testing.T) {
	l := vm.NewLife("test")
	slow, fast := l.Watch(t.Context()), l.Watch(t.Context())
	var want []vm.State
	move := func(to, from vm.State) {
		t.Helper()
		if !l.Move(to, from) {
			t.Fatalf("no move from %s to %s", from, to)
		}
		want = append(want, to)
		if got := <-fast; got != to {
			t.Errorf("fast watcher saw %s, want %s", got, to)
		}
	}
	move(vm.Starting, vm.Stopped)
	move(vm.Running, vm.Starting)
	for range 1000 {
		move(vm.Paused, vm.Running)
		move(vm.Running, vm.Paused)
	}
	if l.Move(vm.Paused, vm.Starting, vm.Stopped) || l.State() != vm.Running {
		t.Errorf("moved from the wrong state to %s", l.State())
	}
	late := l.Watch(t.Context())
	why := errors.New("why")
	l.End(why)
	l.End(nil)
	if l.Move(vm.Running, vm.Failed) || l.State() != vm.Failed || l.Err() != why {
		t.Errorf("after the end: %s, %v", l.State(), l.Err())
	}
	want = append(want, vm.Failed)
	if got := slices.Collect(all(slow)); !slices.Equal(got, want) {
		t.Errorf("slow watcher saw %d changes, want %d", len(got), len(want))
	}
	if got := slices.Collect(all(late)); !slices.Equal(got, []vm.State{vm.Failed}) {
		t.Errorf("late watcher saw %v", got)
	}
	<-l.Done()
}

func TestWatchEndsWithItsContext(t *testing.T) {
	l := vm.NewLife("test")
	ctx, cancel := context.WithCancel(t.Context())
	idle, unread := l.Watch(ctx), l.Watch(ctx)
	l.Move(vm.Starting, vm.Stopped)
	<-idle
	cancel()
	for _, w := range []<-chan vm.State{idle, unread} {
		select {
		case _, open := <-w:
			for open { // what was under way
				_, open = <-w
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the channel is not closed")
		}
	}
}

func all(states <-chan vm.State) func(func(vm.State) bool) {
	return func(yield func(vm.State) bool) {
		for s := range states {
			if !yield(s) {
				return
			}
		}
	}
}
