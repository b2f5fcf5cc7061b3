package snapshots

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/store"
)

// FinishUntil is Finish that calls done after each step.
func FinishUntil(ctx context.Context, home config.Home, db *store.DB, done func(step string) error) error {
	_, err := finish(ctx, home, db, done)
	return err
}
