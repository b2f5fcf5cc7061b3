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
// started has other things to do.
const atOnce = 2

// lookAgain is the pause after a look that did not work: a guest may be silent for a while. It
// grows, twice as long each time, to lookSeldom.
const (
	lookAgain  = 2 * time.Second
	lookSeldom = 5 * time.Minute
)

// watch has plugins be in order whenever a guest has started or answers again, and after
// their agents were reset.
type watch struct {
	*Host
	again   time.Duration   // lookAgain, but in tests
	over    context.Context // ends with close
	end     context.CancelFunc
	work    sync.WaitGroup
	changed notify.Notifier // rung when another guest runs, or how it is is another, or an agent was reset
	places  chan struct{}   // room for atOnce
}

// newWatch returns a watch that has begun.
func newWatch(b *Host, again time.Duration) *watch {
	w := &watch{Host: b, again: again, places: make(chan struct{}, atOnce)}
	w.over, w.end = context.WithCancel(context.Background())
	changed, status := w.changed.Next(), w.machine().Status()
	w.work.Go(func() { w.watchGuests(status) })
	w.work.Go(func() { w.lookAfter(changed) })
	return w
}

func (w *watch) close() {
	w.end()
	w.work.Wait()
}

// Note hears what became of an agent. It waits for nothing but the disk.
func (b *Host) Note(e events.Event) {
	id := config.AgentID(e.Fields["id"])
	switch e.Kind {
	case agents.Reset:
		b.Installer.Reset(id)
		b.watch.changed.Notify()
	case agents.Deleted:
		if err := b.Installer.Forget(id); err != nil {
			b.Log.Warn("what a deleted agent's plugins were is left", "agent", e.Fields["agent"], "error", err)
		}
		b.life.Forget(id) // after which the installer begins nothing of it
	}
}

// watchGuests tells when another guest runs, or the same falls silent or answers again.
func (w *watch) watchGuests(status machine.Status) {
	for {
		next, err := w.machine().Next(w.over, status.Revision)
		if err != nil {
			return // the sandbox or this has ended
		}
		if next.State != status.State || bootOf(next) != bootOf(status) {
			w.changed.Notify()
		}
		status = next
	}
}

// lookAfter looks at the plugins of all agents in the guest that runs, and does so anew
// whenever something has changed.
func (w *watch) lookAfter(changed <-chan struct{}) {
	for w.over.Err() == nil {
		same, end := context.WithCancel(w.over)
		if boot := bootOf(w.machine().Status()); boot != "" {
			for _, agent := range w.Tools.Agents.List() {
				w.work.Go(func() { w.look(same, agent.ID, boot) })
			}
		}
		select {
		case <-changed:
		case <-w.over.Done():
		}
		changed = w.changed.Next()
		end()
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

// looked looks at an agent's plugins once, if there are any, and reports whether that has
// worked. If they were looked at in this guest it costs nothing. A look that has begun is waited
// for whatever changes: it keeps its place until it is over, however often the guest falls silent.
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
