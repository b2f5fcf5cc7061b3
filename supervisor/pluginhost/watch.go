package pluginhost

import (
	"context"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/toolhost"
	"osaurus-sandbox/tools"
)

// atOnce is how many agents' plugins are looked at together: a guest that has just
// started is busy.
const atOnce = 2

// watch verifies and repairs plugins whenever a guest has started or answers again.
type watch struct {
	*Host
	over   context.Context // ends with close
	end    context.CancelFunc
	work   sync.WaitGroup
	places chan struct{} // holds a token for each agent that is looked at
}

// newWatch returns a watch that has begun.
func newWatch(b *Host) *watch {
	w := &watch{Host: b, places: make(chan struct{}, atOnce)}
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
	case agents.Deleted:
		if err := b.Installer.Forget(id); err != nil {
			b.Log.Warn("the plugins of a deleted agent are left", "agent", e.Fields["agent"], "error", err)
		}
		b.life.Forget(id) // now the installer starts nothing of it
	}
}

// run looks at the plugins of a machine's agents when a guest has started or answers again.
func (w *watch) run(vm *machine.Machine) {
	for was, now := range vm.Watch(w.over) {
		if now.State != machine.Running || was.State == machine.Running && bootOf(now) == bootOf(was) {
			continue
		}
		for _, agent := range w.Tools.Agents.List() {
			if w.Tools.Agents.Machines.For(agent.ID) == vm {
				w.work.Go(func() { w.look(toolhost.AgentOf(agent)) })
			}
		}
	}
}

// look waits for a place, and while an agent's plugins are looked at.
func (w *watch) look(agent tools.Agent) {
	select {
	case w.places <- struct{}{}:
		defer func() { <-w.places }()
	case <-w.over.Done():
		return
	}
	select {
	case <-w.Installer.Look(agent):
	case <-w.over.Done():
	}
}
