package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"osaurus-sandbox/internal/fault"
)

// files holds all migrations of the schema, in the order of their names: 0001_events.sql,
// 0002_audit.sql, … A new table is a new file. Released files never change.
//
//go:embed schema/*.sql
var files embed.FS

// migrate runs the missing migrations, each in one transaction with the schema's version.
func migrate(ctx context.Context, pool *sql.DB, migrations fs.FS) error {
	names, err := fs.Glob(migrations, "schema/*.sql") // sorted
	if err != nil {
		return err
	}
	var at int
	if err := pool.QueryRowContext(ctx, "PRAGMA user_version").Scan(&at); err != nil {
		return err
	}
	if at > len(names) {
		return fault.Newf(fault.Rejected, "read database", "schema", "it has version %d, but this program knows %d", at, len(names)).
			Advise("A newer osaurus-sandbox wrote it: use that one, or give this one another home with OSAURUS_HOME.")
	}
	for i, name := range names[at:] {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return err
		}
		err = transact(ctx, pool, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", at+i+1))
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
