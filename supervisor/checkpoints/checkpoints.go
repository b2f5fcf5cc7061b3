// Package checkpoints keeps what each call changed in an agent's folders, and undoes it.
//
// A call that may write has a checkpoint before and one after it. The one after it is made a moment
// later, or is the one before the next call. What changes while no call runs is a row of its own.
// Calls that overlap have each other's changes too.
package checkpoints

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/store"
)

const (
	// beforeLimit is how long a call waits for its checkpoint. After that it runs without one.
	beforeLimit = 30 * time.Second
	// afterDelay is how long the checkpoint after a call waits for the next call, which makes the
	// same one. It also lets writers finish that a command leaves behind.
	afterDelay = 200 * time.Millisecond
	// afterLimit bounds a checkpoint that nobody but Close waits for.
	afterLimit = time.Minute
	// restShare is how many times the duration of a failed checkpoint passes before the next is
	// tried, so that a home that cannot be kept does not slow down each call.
	restShare = 20
	// maxFile is the largest file that is kept. Larger ones are disk images and the like.
	maxFile = 1 << 30
)

// Root is a folder of an agent whose checkpoints are made with those of its calls: its home, or a
// mount. The trees of all roots are in the same History.
type Root struct {
	Name       string // tells the roots of an agent apart, and never changes: homeName or MountRoot
	Folder     string // its path in the agent's room
	Checkpoint func(ctx context.Context) (history.Digest, error)
	// Restore brings the root, or only paths in it, to a tree.
	Restore func(ctx context.Context, to history.Digest, paths []string) (history.Restored, error)
}

// MountRoot returns the name of a mount as a Root: it has the path in the room, and the key of what is known of the
// mount in the history.
func MountRoot(at, key string) string { return at + mountMark + key }

const (
	homeName  = "home"
	mountMark = "//" // is in no clean path
)

// OpenStore opens the store of checkpoints of a home.
func OpenStore(at config.Home, settings config.History) (*history.History, error) {
	dir, err := at.Make(at.History())
	if err != nil {
		return nil, err
	}
	return history.Open(dir, history.Options{MaxBytes: int64(settings.MaxMB) << 20, MaxFile: maxFile, Caches: history.DefaultCaches()})
}

// Options configure Checkpoints.
type Options struct {
	DB       *store.DB
	History  *history.History
	Agents   *agents.Agents
	Settings func() config.History
	Log      *slog.Logger
}

// Checkpoints are the checkpoints of a home's agents. The methods may be called by many goroutines at
// once; their errors are faults.
type Checkpoints struct {
	Options

	life  context.Context // ends with Close
	end   context.CancelFunc
	work  sync.WaitGroup
	turns queue.Queues[config.AgentID] // to make checkpoints of an agent, or to restore one

	pruning sync.Mutex // held to delete checkpoints, and by Undo
	pruned  time.Time  // guarded by pruning

	mu     sync.Mutex // held for moments only
	states map[config.AgentID]*state
	mounts func(config.AgentID) []Root // or nil
}

// UseMounts sets what returns the reviewed mounts of an agent.
func (c *Checkpoints) UseMounts(of func(config.AgentID) []Root) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mounts = of
}

// state is what is known of an agent's calls. Checkpoints.mu guards running and ended, the agent's
// turn the rest.
type state struct {
	running map[int64]string     // tools by the number of the call
	ended   []Call               // without the checkpoint after them
	last    trees                // the last ones; nil if they are not known
	failed  error                // why the last attempt failed, if it did
	rest    time.Time            // make no checkpoint before
	rests   map[string]time.Time // nor of a mount, while a call waits
}

// Open opens the checkpoints of a home, and finishes what a killed daemon left: restores, and calls
// without the checkpoint after them.
func Open(ctx context.Context, o Options) (*Checkpoints, error) {
	c := &Checkpoints{Options: o, states: map[config.AgentID]*state{}}
	left, err := c.calls(ctx, "ended = 0 ORDER BY call")
	if err != nil {
		return nil, err
	}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	c.forget(func(id config.AgentID) bool { return !c.Agents.Has(id) })
	if err := c.resume(ctx); err != nil {
		o.Log.Error("an undo that was interrupted is not finished", "error", err)
	}
	for _, call := range left {
		call.Outcome = "interrupted"
		c.ended(call)
	}
	return c, nil
}

// Close makes the checkpoints that are missing and ends background work.
func (c *Checkpoints) Close() {
	c.mu.Lock()
	c.end() // no more work begins
	c.mu.Unlock()
	c.work.Wait()
}

// background does something later, unless the daemon ends: then it reports false.
func (c *Checkpoints) background(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.work.Go(do)
	return true
}

func (c *Checkpoints) state(id config.AgentID) *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[id]
	if s == nil {
		s = &state{running: map[int64]string{}, rests: map[string]time.Time{}}
		c.states[id] = s
	}
	return s
}

// Forget drops what is known of a deleted agent. Its rows go with the agent.
func (c *Checkpoints) Forget(id config.AgentID) {
	c.mu.Lock()
	delete(c.states, id)
	c.mu.Unlock()
	c.forget(func(other config.AgentID) bool { return other == id })
}

// forget drops the last checkpoints of agents' homes and mounts. Their keys begin with a kind and the agent's id.
func (c *Checkpoints) forget(gone func(config.AgentID) bool) {
	err := c.History.ForgetAll(func(key string) bool {
		_, rest, _ := strings.Cut(key, "/")
		id, _, _ := strings.Cut(rest, "/")
		return gone(config.AgentID(id))
	})
	if err != nil {
		c.Log.Warn("the last checkpoint of a deleted agent is left", "error", err)
	}
}

func homeKey(id config.AgentID) string { return "home/" + string(id) }

// each calls do with each root of an agent, the home first.
func (c *Checkpoints) each(agent agents.Agent, do func(Root) error) error {
	dir, err := c.Agents.OpenHome(agent)
	if err != nil {
		return err
	}
	defer dir.Close()
	list := []Root{{
		Name: homeName, Folder: agent.Home(),
		Checkpoint: func(ctx context.Context) (history.Digest, error) {
			made, err := c.History.Checkpoint(ctx, homeKey(agent.ID), dir)
			return made.Tree, err
		},
		Restore: func(ctx context.Context, to history.Digest, paths []string) (history.Restored, error) {
			defer c.Agents.Recount(agent)
			return c.History.Restore(ctx, homeKey(agent.ID), dir, to, paths, nil)
		},
	}}
	c.mu.Lock()
	mounts := c.mounts
	c.mu.Unlock()
	if mounts != nil {
		list = append(list, mounts(agent.ID)...)
	}
	for _, root := range list {
		if err := do(root); err != nil {
			return err
		}
	}
	return nil
}

// snapshot makes a checkpoint of each root. Each mount gets half of the time that is left, so that a slow one
// does not block the others. The caller has the turn.
func (c *Checkpoints) snapshot(ctx context.Context, agent agents.Agent) (trees, error) {
	s, began, now := c.state(agent.ID), time.Now(), trees{}
	if began.Before(s.rest) {
		return nil, s.failed
	}
	c.History.Limit(int64(c.Settings().MaxMB) << 20)
	s.failed = c.each(agent, func(root Root) error {
		name, tried, limited := root.Name, time.Now(), ctx
		own := name == homeName
		if deadline, ok := ctx.Deadline(); ok && !own {
			if tried.Before(s.rests[name]) {
				return nil
			}
			var cancel context.CancelFunc
			limited, cancel = context.WithDeadline(ctx, tried.Add(deadline.Sub(tried)/2))
			defer cancel()
		}
		tree, err := root.Checkpoint(limited)
		if fault.KindOf(err) == fault.Rejected { // the budget may be used up
			c.background(func() { c.prune(true) })
		}
		if err != nil && !own && ctx.Err() == nil {
			s.rests[name] = time.Now().Add(restShare * time.Since(tried))
			c.Log.Warn("changes in a mount cannot be undone", "agent", agent.Name, "folder", root.Folder, "error", err)
			return nil
		}
		now[name] = tree
		return err
	})
	if s.failed != nil {
		s.rest = time.Now().Add(restShare * time.Since(began))
		return nil, s.failed
	}
	return now, nil
}

// resume finishes the restores that a killed daemon has begun.
func (c *Checkpoints) resume(ctx context.Context) error {
	keys, err := c.History.Pending() // mounts.Open finishes those of mounts
	for _, agent := range c.Agents.List() {
		if !slices.Contains(keys, homeKey(agent.ID)) {
			continue
		}
		dir, failed := c.Agents.OpenHome(agent)
		if failed == nil {
			_, failed = c.History.Resume(ctx, homeKey(agent.ID), dir)
			failed = errors.Join(failed, dir.Close())
		}
		err = errors.Join(err, failed)
	}
	return err
}

// take waits for an agent's turn. The caller must call give.
func (c *Checkpoints) take(ctx context.Context, id config.AgentID) (give func(), err error) {
	if give, err = c.turns.Take(ctx, id, nil); err != nil {
		return nil, fault.Newf(fault.KindOf(err), "make checkpoint", string(id), "another is still being made or restored: %w", err)
	}
	return give, nil
}
