package pluginhost

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/toolhost"
)

// atOnce is how many agents' plugins are looked at together: a guest that has just
// started is busy.
const atOnce = 2

// watch verifies and repairs plugins whenever a guest has started or answers again.
type watch struct {
	*Host
	over context.Context // ends with close
	end  context.CancelFunc
	work sync.WaitGroup
}

// newWatch returns a watch that has begun.
func newWatch(b *Host) *watch {
	w := &watch{Host: b}
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
		b.life.Forget(id) // from now on the installer starts nothing of it
	}
}

// run looks at the plugins of a machine's agents when a guest has started or answers again.
func (w *watch) run(vm *machine.Machine) {
	var looks errgroup.Group
	looks.SetLimit(atOnce)
	defer looks.Wait()
	for was, now := range vm.Watch(w.over) {
		if now.State != machine.Running || was.State == machine.Running && bootOf(now) == bootOf(was) {
			continue
		}
		for _, agent := range w.Tools.Agents.List() {
			if w.Tools.Agents.Machines.For(agent.ID) != vm {
				continue
			}
			looks.Go(func() error {
				select {
				case <-w.Installer.Look(toolhost.AgentOf(agent)):
				case <-w.over.Done():
				}
				return nil
			})
		}
	}
}
