package pluginhost

import (
	"context"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// atOnce is how many agents' plugins are looked at together: a guest that has just
// started is busy.
const atOnce = 2

// lookAgain is the pause after a failed look: a guest may be silent for a while. It doubles each
// time, up to lookSeldom.
const (
	lookAgain  = 2 * time.Second
	lookSeldom = 5 * time.Minute
)

// watch verifies and repairs plugins whenever a guest has started or answers again, and after their
// agents were reset.
type watch struct {
	*Host
	again   time.Duration   // lookAgain, but in tests
	over    context.Context // ends with close
	end     context.CancelFunc
	work    sync.WaitGroup
	changed notify.Notifier // notified when an agent was reset
	places  chan struct{}   // holds a token for each agent that is looked at
}

// newWatch returns a watch that has begun.
func newWatch(b *Host, again time.Duration) *watch {
	w := &watch{Host: b, again: again, places: make(chan struct{}, atOnce)}
	w.over, w.end = context.WithCancel(context.Background())
	for _, vm := range b.Tools.Agents.Machines.All() {
		w.work.Go(func() { w.run(vm) })
	}
	return w
}

func (w *watch) close() {
	w.end()
	w.work.Wait()
}

// Note handles the events of agents. It waits only for the disk.
func (b *Host) Note(e events.Event) {
	id := config.AgentID(e.Fields["id"])
	switch e.Kind {
	case agents.Reset, agents.Restored:
		b.Installer.Reset(id)
		b.watch.changed.Notify()
	case agents.Deleted:
		if err := b.Installer.Forget(id); err != nil {
			b.Log.Warn("the plugins of a deleted agent are left", "agent", e.Fields["agent"], "error", err)
		}
		b.life.Forget(id) // now the installer starts nothing of it
	}
}

// run looks at the plugins of a machine's agents while a guest runs. It does so again when another
// guest runs, the guest falls silent or answers again, or an agent was reset.
func (w *watch) run(vm *machine.Machine) {
	for {
		changed, status := w.changed.Next(), vm.Status()
		same, end := context.WithCancel(w.over)
		w.work.Go(func() {
			defer end()
			select {
			case <-changed:
			case <-same.Done():
			}
		})
		boot := bootOf(status)
		for _, agent := range w.Tools.Agents.List() {
			if boot != "" && w.Tools.Agents.Machines.For(agent.ID) == vm {
				w.work.Go(func() { w.look(same, agent.ID, boot) })
			}
		}
		var err error
		for next := status; err == nil && next.State == status.State && bootOf(next) == boot; {
			next, err = vm.Next(same, next.Revision)
		}
		over := err != nil && same.Err() == nil || w.over.Err() != nil
		end()
		if over {
			return // the machine or this has ended
		}
	}
}

// look looks at an agent's plugins until that has worked, or something has changed.
func (w *watch) look(same context.Context, agent config.AgentID, boot string) {
	for pause := w.again; !w.looked(same, agent, boot); pause = min(2*pause, lookSeldom) {
		select {
		case <-time.After(pause):
		case <-same.Done():
			return
		}
	}
}

// looked looks at an agent's plugins once and reports whether that has worked. It costs nothing
// if there are none, or if they were looked at in this guest. A look that has begun is not
// interrupted when something changes.
func (w *watch) looked(same context.Context, agent config.AgentID, boot string) bool {
	a, gone := w.agent(agent)
	if list, err := w.Installer.List(agent); gone != nil || err != nil || len(list) == 0 {
		return true
	}
	select {
	case w.places <- struct{}{}:
		defer func() { <-w.places }()
		return w.Installer.ReadyIn(w.over, a, boot)
	case <-same.Done():
		return true
	}
}
