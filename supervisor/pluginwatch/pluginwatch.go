// Package pluginwatch has agents' plugins be in order whenever a guest has started, and after their agents were reset or deleted.
package pluginwatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/toolbench"
)

// atOnce is how many agents' plugins are looked at together: a guest that has just
// started has other things to do.
const atOnce = 2

// Watch looks after the plugins of a home. Whoever notes what becomes of agents tells it
// by Note, before it does.
type Watch struct {
	installer *install.Installer
	agents    *agents.Agents
	log       *slog.Logger
	life      context.Context // ends with Close
	end       context.CancelFunc
	work      sync.WaitGroup
	changed   events.Bell // rung when an agent was reset
}

// New returns a watch that has begun.
func New(i *install.Installer, a *agents.Agents, log *slog.Logger) *Watch {
	w := &Watch{installer: i, agents: a, log: log}
	w.life, w.end = context.WithCancel(context.Background())
	reset := w.changed.Next()
	w.work.Go(w.watchGuests)
	w.work.Go(func() { w.watchResets(reset) })
	return w
}

// Close ends it.
func (w *Watch) Close() {
	w.end()
	w.work.Wait()
}

// Note hears what became of an agent. It waits for nothing but the disk.
func (w *Watch) Note(e events.Event) {
	id := config.AgentID(e.Fields["id"])
	switch e.Kind {
	case agents.Reset:
		w.installer.Reset(id)
		w.changed.Ring()
	case agents.Deleted:
		if err := w.installer.Forget(id); err != nil {
			w.log.Warn("what a deleted agent's plugins were is left", "agent", e.Fields["agent"], "error", err)
		}
	}
}

// watchGuests looks at all plugins whenever a guest has started.
func (w *Watch) watchGuests() {
	var seen time.Time
	for status := w.agents.Sandbox.Status(); ; {
		if status.State == supervisor.Running && !status.StartedAt.Equal(seen) {
			seen = status.StartedAt
			w.round()
		}
		var err error
		if status, err = w.agents.Sandbox.Next(w.life, status.Revision); err != nil {
			return // the sandbox or this has ended
		}
	}
}

// watchResets looks at them whenever an agent was reset in a guest that runs.
func (w *Watch) watchResets(reset <-chan struct{}) {
	for {
		select {
		case <-reset:
		case <-w.life.Done():
			return
		}
		reset = w.changed.Next()
		if w.agents.Sandbox.Status().State == supervisor.Running {
			w.round()
		}
	}
}

// round looks at the plugins of all agents that have any. Those that were looked at
// in this guest cost nothing.
func (w *Watch) round() {
	places := make(chan struct{}, atOnce)
	var work sync.WaitGroup
	for _, agent := range w.agents.List() {
		if list, err := w.installer.List(agent.ID); err != nil || len(list) == 0 {
			continue
		}
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			if err := w.installer.Ready(w.life, toolbench.AgentOf(agent)); err != nil && w.life.Err() == nil {
				w.log.Warn("an agent's plugins were not verified", "agent", agent.Name, "error", err)
			}
		})
	}
	work.Wait()
}
