package install

import (
	"context"
	"fmt"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/tools"
)

// key is a plugin of an agent.
type key struct {
	agent  config.AgentID
	plugin config.PluginID
}

// turns are queues, one for each plugin that somebody changes, for one at a time.
// Who waits may leave.
type turns struct {
	mu sync.Mutex
	of map[key]*turn
}

type turn struct {
	free chan struct{} // has a token while nobody has the turn
	used int           // by who has it and who waits; guarded by turns.mu
}

// take waits for a turn. Calling what it returns ends it.
func (t *turns) take(ctx context.Context, op string, k key) (end func(), err error) {
	t.mu.Lock()
	q := t.of[k]
	if q == nil {
		q = &turn{free: make(chan struct{}, 1)}
		q.free <- struct{}{}
		t.of[k] = q
	}
	q.used++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.used--; q.used == 0 {
			delete(t.of, k)
		}
	}
	select {
	case <-q.free:
		return func() {
			q.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, fault.New(fault.KindOf(ctx.Err()), op, string(k.plugin), fmt.Errorf("another change of it is not done: %w", ctx.Err())).Advise("See `osaurus-sandbox plugin status`, and try again.")
	}
}

// turn waits for the turn to change a plugin of an agent.
func (i *Installer) turn(ctx context.Context, op string, a tools.Agent, plugin config.PluginID) (end func(), err error) {
	return i.turns.take(ctx, op, key{a.ID, plugin})
}

// rest waits until nobody changes a plugin.
func (i *Installer) rest(ctx context.Context, a tools.Agent, plugin config.PluginID) error {
	end, err := i.turn(ctx, "call plugin", a, plugin)
	if err == nil {
		end()
	}
	return err
}
