// Package store opens the supervisor's SQLite database, migrates its schema and explains its errors.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"
)

const (
	// patience is how long a statement waits for a lock. In WAL mode only writers wait
	// for each other, and their transactions are short.
	patience = 5 * time.Second
	// maxReaders bounds the connections for reading: each costs file
	// descriptors and a page cache.
	maxReaders = 4
	// privateFile is the mode of the database: it says what agents did.
	privateFile fs.FileMode = 0o600
)

// DB is an open database. Its methods may be called from any goroutine.
type DB struct {
	path   string
	writer *sql.DB // one connection, so that writers queue here and not at SQLite's lock
	reader *sql.DB
}

// Open opens the database for reading and writing. The caller holds the home's lock. Open
// creates a missing file and migrates its schema; an unknown version is fault.Rejected. The
// folder must exist.
func Open(ctx context.Context, path string) (*DB, error) {
	return open(ctx, path, files)
}

func open(ctx context.Context, path string, migrations fs.FS) (*DB, error) {
	db := &DB{path: path}
	if err := db.open(ctx, migrations); err != nil {
		db.Close()
		return nil, db.Fault("open database", err)
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, migrations fs.FS) error {
	// SQLite would create it readable for all. Its WAL inherits the mode.
	file, err := os.OpenFile(db.path, os.O_CREATE|os.O_RDWR, privateFile)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(privateFile), file.Close()); err != nil {
		return err
	}
	// With synchronous(FULL) a commit is on the disk when it returns.
	db.writer = db.connect("rwc", "immediate", 1, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)")
	if err := db.migrate(ctx, migrations); err != nil {
		return err
	}
	db.reader = db.connect("rw", "deferred", maxReaders, "query_only(1)")
	return nil
}

// connect returns a pool of connections. Mode and lock are SQLite's names for how it opens
// the file and begins transactions.
func (db *DB) connect(mode, lock string, most int, pragmas ...string) *sql.DB {
	query := fmt.Sprintf("mode=%s&_txlock=%s&_pragma=busy_timeout(%d)", mode, lock, patience.Milliseconds())
	for _, pragma := range pragmas {
		query += "&_pragma=" + pragma
	}
	pool, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: db.path, RawQuery: query}).String())
	if err != nil {
		panic(err) // only an unknown driver is an error here
	}
	pool.SetMaxOpenConns(most)
	return pool
}

// Write runs do in a transaction. It is on the disk when Write returns nil, and undone when
// it returns an error. Writers take turns. The error is the *fault.Error of do, or one
// about op.
func (db *DB) Write(ctx context.Context, op string, do func(*sql.Tx) error) error {
	return db.Fault(op, transact(ctx, db.writer, do))
}

// Read runs do in a transaction that sees the database as at its first query. It should be
// short, since the WAL grows meanwhile.
func (db *DB) Read(ctx context.Context, op string, do func(*sql.Tx) error) error {
	return db.Fault(op, transact(ctx, db.reader, do))
}

func transact(ctx context.Context, pool *sql.DB, do func(*sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	err = do(tx)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil && ctx.Err() != nil && cutShort(err) {
		return ctx.Err()
	}
	return err
}

// Close waits for running transactions and closes the database. No new ones may begin.
func (db *DB) Close() error {
	var errs []error
	for _, pool := range []*sql.DB{db.reader, db.writer} { // the writer last: it removes the WAL
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return db.Fault("close database", err)
	}
	return nil
}
