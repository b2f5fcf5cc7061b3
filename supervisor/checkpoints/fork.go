package checkpoints

import (
	"context"
	"errors"
	"os"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
)

// madePlugins is the folder that a new home has. If it is not empty, the home is not new.
const madePlugins = "plugins"

// Fork fills the home of a new agent with that of another, as it is now, or as it was after a call if
// that is not 0. If it fails, the home is empty again.
func (c *Checkpoints) Fork(ctx context.Context, from, to agents.Agent, call int64, report progress.Func) (err error) {
	var tree history.Digest
	if call != 0 {
		if _, trees, err := c.ends(ctx, from, Range{First: call}); err != nil {
			return err
		} else {
			tree = trees[home{}.Name()]
		}
	}
	fresh, err := c.Agents.OpenHome(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	defer c.Agents.Recount(to)
	if call != 0 {
		_, err = c.History.Restore(ctx, homeKey(to.ID), fresh, tree, nil, report)
		return err
	}
	old, err := c.Agents.OpenHome(from)
	if err != nil {
		return err
	}
	defer old.Close()
	if err := fresh.Remove(madePlugins); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Rejected, "fork agent", string(to.Name), err).Advise("Fork to an agent whose home is empty.")
	}
	return history.Copy(ctx, old, fresh, report)
}
