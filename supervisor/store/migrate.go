package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"

	"osaurus-sandbox/internal/fault"
)

// files holds all migrations of the schema, in the order of their names: 0001_events.sql,
// 0002_audit.sql, … A new table is a new file. Released files never change.
//
//go:embed schema/*.sql
var files embed.FS

// migration brings a schema from one version to the next.
type migration struct {
	name string
	sql  string
}

func schema() []migration {
	names, err := fs.Glob(files, "schema/*.sql") // sorted
	if err != nil {
		panic(err) // a bad pattern
	}
	list := make([]migration, 0, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		list = append(list, migration{path.Base(name), string(text)})
	}
	return list
}

// migrate runs the missing migrations, each in one transaction with the schema's version.
func migrate(ctx context.Context, pool *sql.DB, schema []migration) error {
	var at int
	if err := pool.QueryRowContext(ctx, "PRAGMA user_version").Scan(&at); err != nil {
		return err
	}
	if at > len(schema) {
		return fault.Newf(fault.Rejected, "read database", "schema", "it has version %d, this program knows %d", at, len(schema)).
			Advise("A newer osaurus-sandbox wrote it: use that one, or give this one another home with OSAURUS_HOME.")
	}
	for i, m := range schema[at:] {
		err := transact(ctx, pool, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, m.sql); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", at+i+1))
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}
