package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"osaurus-sandbox/internal/fault"
)

// files holds the schema and its migrations, applied in the order of their names. Released files never
// change.
//
//go:embed schema/*.sql
var files embed.FS

// migrate runs the missing migrations, each in one transaction with the schema's version. A database
// of an unknown version is fault.Rejected.
func (db *DB) migrate(ctx context.Context, migrations fs.FS) error {
	names, err := fs.Glob(migrations, "schema/*.sql") // sorted
	if err != nil {
		return err
	}
	var at int
	if err := db.writer.QueryRowContext(ctx, "PRAGMA user_version").Scan(&at); err != nil {
		return err
	}
	if at < 0 || at > len(names) {
		cause := fmt.Errorf("its schema has version %d, but this program knows %d", at, len(names))
		return fault.New(fault.Rejected, "open database", db.path, trouble{cause}).
			Advise("Another build of osaurus-sandbox made it. Use that one, or move " + db.path + " away: a new one is made, without its agents.")
	}
	for i, name := range names[at:] {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return err
		}
		err = transact(ctx, db.writer, func(tx *sql.Tx) error {
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
