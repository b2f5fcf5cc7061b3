package pluginbench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"osaurus-sandbox/bell"
	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/toolbench"
)

// atOnce is how many agents' plugins are looked at together: a guest that has just
// started has other things to do.
const atOnce = 2

// lookAgain is the pause after a look that did not work: a guest may be silent for a while. It
// grows, twice as long each time, to lookSeldom.
const (
	lookAgain  = 2 * time.Second
	lookSeldom = 5 * time.Minute
)

// watch has plugins be in order whenever a guest has started, and after their agents were
// reset.
type watch struct {
	*Bench
	over  context.Context // ends with close
	end   context.CancelFunc
	work  sync.WaitGroup
	reset bell.Bell // rung when an agent was
}

// newWatch returns a watch that has begun.
func newWatch(b *Bench) *watch {
	w := &watch{Bench: b}
	w.over, w.end = context.WithCancel(context.Background())
	reset := w.reset.Next()
	w.work.Go(w.watchGuests)
	w.work.Go(func() { w.watchResets(reset) })
	return w
}

func (w *watch) close() {
	w.end()
	w.work.Wait()
}

// Note hears what became of an agent. It waits for nothing but the disk.
func (b *Bench) Note(e events.Event) {
	id := config.AgentID(e.Fields["id"])
	switch e.Kind {
	case agents.Reset:
		b.Installer.Reset(id)
		b.watch.reset.Ring()
	case agents.Deleted:
		b.life.Forget(id)
		if err := b.Installer.Forget(id); err != nil {
			b.Log.Warn("what a deleted agent's plugins were is left", "agent", e.Fields["agent"], "error", err)
		}
	}
}

// watchGuests looks at all plugins whenever a guest has started.
func (w *watch) watchGuests() {
	var seen string
	for status := w.sandbox().Status(); ; {
		if boot := bootOf(status); boot != "" && boot != seen {
			seen = boot
			w.look(boot)
		}
		var err error
		if status, err = w.sandbox().Next(w.over, status.Revision); err != nil {
			return // the sandbox or this has ended
		}
	}
}

// watchResets looks at them whenever an agent was reset in a guest that runs.
func (w *watch) watchResets(reset <-chan struct{}) {
	for {
		select {
		case <-reset:
		case <-w.over.Done():
			return
		}
		reset = w.reset.Next()
		if boot := bootOf(w.sandbox().Status()); boot != "" {
			w.look(boot)
		}
	}
}

// look looks at the plugins of all agents until that has worked, or the guest is gone.
func (w *watch) look(boot string) {
	for pause := lookAgain; !w.round() && bootOf(w.sandbox().Status()) == boot; pause = min(2*pause, lookSeldom) {
		select {
		case <-time.After(pause):
		case <-w.over.Done():
			return
		}
	}
}

// round looks at the plugins of all agents that have any, and reports whether that has
// worked. Those that were looked at in this guest cost nothing.
func (w *watch) round() bool {
	places := make(chan struct{}, atOnce)
	var work sync.WaitGroup
	var failed atomic.Bool
	for _, agent := range w.Tools.Agents.List() {
		if list, err := w.Installer.List(agent.ID); err != nil || len(list) == 0 {
			continue
		}
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			if err := w.Installer.Ready(w.over, toolbench.AgentOf(agent)); err != nil && w.over.Err() == nil {
				w.Log.Warn("an agent's plugins were not verified", "agent", agent.Name, "error", err)
			}
			if !w.Installer.Looked(agent.ID) {
				failed.Store(true)
			}
		})
	}
	work.Wait()
	return !failed.Load()
}
