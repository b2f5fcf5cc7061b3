package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"osaurus-sandbox/internal/fault"
)

// Fault turns an error of SQLite or the system into a *fault.Error about the database. It
// returns a *fault.Error and nil unchanged.
func (db *DB) Fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	var (
		room     = "Make room on the disk of " + filepath.Dir(db.path) + " and try again: nothing that was written is lost."
		writable = "Make " + db.path + " and its folder writable for you."
		broken   = "Keep a copy of " + db.path + ", then restore it from a backup or move it away: a new one is made."
		kind     = fault.Execution
		advice   = "This should not happen: see the daemon's log (osaurus-sandbox logs), and report it."
		code     = 0
	)
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code = e.Code()
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(op, "", err)
	case code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: // all of them are to agents
		return fault.Newf(fault.NotFound, op, "", "the agent was deleted")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind, advice = fault.Unavailable, room
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind, advice = fault.Unavailable, writable
	}
	switch code & 0xff { // without the extended code
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR: // a full disk can be either
		kind, advice = fault.Unavailable, room
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		kind, advice = fault.Unavailable, writable
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		advice = broken
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		kind, advice = fault.Timeout, "Another program keeps "+db.path+" locked: close it."
	case sqlite3.SQLITE_CONSTRAINT:
		kind = fault.Rejected
	}
	return fault.New(kind, op, db.path, trouble{err}).Advise(advice)
}

// trouble is an error with the database's path, which programs in the guest must not see.
type trouble struct{ error }

func (t trouble) Unwrap() error { return t.error }

// HostOnly implements bridge.HostOnly.
func (trouble) HostOnly() {}

// cutShort reports whether an error is that of a transaction whose context has ended.
func cutShort(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return errors.Is(err, sql.ErrTxDone) || ok && e.Code()&0xff == sqlite3.SQLITE_INTERRUPT
}
