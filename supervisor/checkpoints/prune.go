package checkpoints

import (
	"context"
	"time"

	"osaurus-sandbox/history"
	"osaurus-sandbox/supervisor/store"
)

const (
	// pruneEvery is how often old checkpoints are looked for.
	pruneEvery = 6 * time.Hour
	// Pruning begins when used of the budget is full, and goes on until only kept of it is, so that
	// it is rare.
	used, kept, ofBudget = 9, 7, 10
	// pruneShare is the share (1/8) of the checkpoints that is deleted at a time.
	pruneShare = 8
)

// keepBudget prunes if it is time to.
func (c *Checkpoints) keepBudget() {
	size, err := c.History.Used()
	full := err == nil && size > c.budget()*used/ofBudget
	c.mu.Lock()
	due := time.Since(c.pruned) > pruneEvery
	c.mu.Unlock()
	if full || due {
		c.prune()
	}
}

// budget returns how many bytes may be used.
func (c *Checkpoints) budget() int64 { return int64(c.Settings().MaxMB) << 20 }

// prune deletes old checkpoints in the background.
func (c *Checkpoints) prune() {
	if c.life.Err() != nil {
		return
	}
	c.work.Go(func() {
		if !c.pruning.TryLock() {
			return
		}
		defer c.pruning.Unlock()
		if err := c.pruneNow(c.life); err != nil && c.life.Err() == nil {
			c.Log.Warn("old checkpoints are not deleted", "error", err)
		}
		c.mu.Lock()
		c.pruned = time.Now()
		c.mu.Unlock()
	})
}

// pruneNow deletes checkpoints that are too old, and then the oldest of all agents until the rest
// keeps to the budget.
func (c *Checkpoints) pruneNow(ctx context.Context) error {
	oldest := time.Now().AddDate(0, 0, -c.Settings().MaxDays)
	const forget = "UPDATE history SET before = '', after = '' WHERE ended > 0 AND before != '' AND "
	if _, err := c.DB.Exec(ctx, "prune history", forget+"began < ?", oldest.UnixNano()); err != nil {
		return err
	}
	limit := c.budget() * used / ofBudget
	for {
		if _, _, err := c.History.Prune(ctx, func() ([]history.Digest, error) { return c.referred(ctx) }); err != nil {
			return err
		}
		size, err := c.History.Used()
		if err != nil || size <= limit {
			return err
		}
		limit = c.budget() * kept / ofBudget
		n, err := c.DB.Exec(ctx, "prune history", forget+`(agent, call) IN (SELECT agent, call FROM history WHERE ended > 0 AND before != '' ORDER BY began
			LIMIT (SELECT 1 + count(*) / ? FROM history WHERE ended > 0 AND before != ''))`, pruneShare)
		if err != nil || n == 0 {
			return err
		}
	}
}

// referred returns all trees that rows refer to.
func (c *Checkpoints) referred(ctx context.Context) (list []history.Digest, err error) {
	c.referring.Lock()
	defer c.referring.Unlock()
	rows, err := store.Select(ctx, c.DB, "read history", store.Value[trees], "SELECT before FROM history WHERE before != '' UNION SELECT after FROM history WHERE after != ''")
	for _, t := range rows {
		for _, tree := range t {
			list = append(list, tree)
		}
	}
	return list, err
}
