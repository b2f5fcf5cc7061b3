// Package store is the supervisor's one SQLite database: it opens it, brings its schema up to date and says what is wrong with it.
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

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"osaurus-sandbox/internal/fault"
)

const (
	// patience is how long a statement waits for another connection's lock. In
	// WAL mode only writers wait for each other, and their transactions are short.
	patience = 5 * time.Second
	// maxReaders bounds the connections for reading: each costs file
	// descriptors and a page cache.
	maxReaders = 4
	// privateFile: what agents did is for the user alone.
	privateFile fs.FileMode = 0o600
)

// DB is the open database. Its methods may be called at once by many.
type DB struct {
	path   string
	writer *sql.DB // one connection, so writers queue here and not at SQLite's lock; nil if it is only read
	reader *sql.DB
}

// Open opens the database for the one program that writes it, which the home's
// lock chooses. It makes the file if there is none, and brings an older schema
// up to date; a newer one is fault.Rejected. The folder must exist.
func Open(ctx context.Context, path string) (*DB, error) {
	return open(ctx, path, schema())
}

func open(ctx context.Context, path string, schema []migration) (*DB, error) {
	db := &DB{path: path}
	if err := db.open(ctx, schema); err != nil {
		db.Close()
		return nil, db.Fault("open database", err)
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, schema []migration) error {
	// SQLite would make it readable for all; its WAL takes over the mode.
	file, err := os.OpenFile(db.path, os.O_CREATE|os.O_RDWR, privateFile)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(privateFile), file.Close()); err != nil {
		return err
	}
	// A commit is on the disk when it returns: an acknowledged entry of the
	// audit survives a power cut.
	db.writer = db.connect("rwc", "immediate", 1, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)")
	if err := migrate(ctx, db.writer, schema); err != nil {
		return err
	}
	db.reader = db.connect("rw", "deferred", maxReaders, "query_only(1)")
	return nil
}

// View opens the database for reading, also while another program has it open
// for writing, and also where nothing can be written. No file is
// fault.NotFound; a schema that is not this program's is refused.
func View(ctx context.Context, path string) (*DB, error) {
	const op = "open database"
	db := &DB{path: path}
	if _, err := os.Stat(path); err != nil {
		return nil, db.Fault(op, err)
	}
	db.reader = db.connect("ro", "deferred", maxReaders)
	err := checkVersion(ctx, db.reader, schema())
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_CANTOPEN && !db.hasWAL() {
		// In a folder that is read-only, SQLite cannot make the files that
		// readers and writers agree with. Without a WAL there is no writer.
		db.reader.Close()
		db.reader = db.connect("ro&immutable=1", "deferred", maxReaders)
		err = checkVersion(ctx, db.reader, schema())
	}
	if err != nil {
		db.Close()
		return nil, db.Fault(op, err)
	}
	return db, nil
}

func (db *DB) hasWAL() bool {
	_, err := os.Stat(db.path + "-wal")
	return !errors.Is(err, fs.ErrNotExist)
}

// connect makes a pool of at most so many connections. The mode and the lock
// that a transaction begins with are SQLite's words.
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

// Path is the database's file.
func (db *DB) Path() string { return db.path }

// Write runs do in a transaction that is on the disk when Write returns nil,
// and not there at all when it returns an error. Writers take turns. The error
// is do's own *fault.Error, or one about op.
func (db *DB) Write(ctx context.Context, op string, do func(*sql.Tx) error) error {
	if db.writer == nil {
		return fault.Newf(fault.Rejected, op, db.path, "it was opened for reading")
	}
	return db.Fault(op, transact(ctx, db.writer, do))
}

// Read runs do in a transaction that sees the database as it was when do's
// first query ran, whatever is written meanwhile. It should be short: what it
// sees cannot be tidied away.
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

// Close waits for what runs and closes the database. It must not be called
// while others may still begin something.
func (db *DB) Close() error {
	var errs []error
	for _, pool := range []*sql.DB{db.reader, db.writer} { // the writer last: it tidies the WAL away
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return db.Fault("close database", err)
	}
	return nil
}
