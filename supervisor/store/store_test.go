package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

// schema returns migrations.
func schema(texts ...string) fs.FS {
	files := fstest.MapFS{}
	for i, text := range texts {
		files[fmt.Sprintf("schema/%d.sql", i)] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func openAt(t testing.TB, path string, migrations fs.FS) *DB {
	t.Helper()
	db, err := open(t.Context(), path, migrations)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (db *DB) exec(ctx context.Context, query string, args ...any) error {
	_, err := db.Exec(ctx, "test", query, args...)
	return err
}

func (db *DB) number(t testing.TB, query string) int {
	t.Helper()
	n, _, err := Find(t.Context(), db, "test", Value[int], query)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wantFault checks an error's kind and that it says what to do.
func wantFault(t testing.TB, err error, kind fault.Kind, advice string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(fault.AdviceOf(err), advice) {
		t.Errorf("%v (%s; advice %q), want %s with %q", err, fault.KindOf(err), fault.AdviceOf(err), kind, advice)
	}
}

func TestOpen(t *testing.T) {
	// Whatever is in a path, it is only a path.
	dir := filepath.Join(t.TempDir(), "Ω und #50% ?mode=memory&x=;")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sandbox.db")
	db := openAt(t, path, files)
	if err := db.exec(t.Context(), "CREATE TABLE t (a INTEGER PRIMARY KEY, b REFERENCES t)"); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"PRAGMA journal_mode": "wal", "PRAGMA synchronous": "2", "PRAGMA foreign_keys": "1", "PRAGMA busy_timeout": "5000",
	} {
		var got string
		if err := db.writer.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", query, got, err, want)
		}
	}
	for _, name := range []string{"sandbox.db", "sandbox.db-wal", "sandbox.db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	wantFault(t, db.exec(t.Context(), "INSERT INTO t VALUES (1, 7)"), fault.NotFound, "")
	if err := db.exec(t.Context(), "INSERT INTO t VALUES (1, NULL)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := openAt(t, path, files).number(t, "SELECT count(*) FROM t"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestWriteIsWholeOrNothing(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "db"), schema("CREATE TABLE t (a INTEGER)"))
	mistake := fault.New(fault.UserDenied, "x", "", nil)
	err := db.Write(t.Context(), "test", func(tx *sql.Tx) error {
		if _, err := tx.Exec("INSERT INTO t VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		return mistake
	})
	if err != mistake {
		t.Errorf("%v, want the caller's own", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = db.Write(ctx, "test", func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO t VALUES (1)")
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if n := db.number(t, "SELECT count(*) FROM t"); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}

func TestMigrations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	const one, two, bad = "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN b INTEGER; UPDATE t SET b = a + 1", "DELETE FROM t; CREATE TABLE t (a INTEGER)"
	openAt(t, path, schema(one)).Close()

	if _, err := open(t.Context(), path, schema(one, bad)); err == nil || !strings.Contains(err.Error(), "schema/1.sql") {
		t.Errorf("a migration that cannot be done: %v", err)
	}
	db := openAt(t, path, schema(one, two))
	if n := db.number(t, "SELECT b FROM t"); n != 2 {
		t.Errorf("after the second migration: %d", n)
	}
	db.Close()
	openAt(t, path, schema(one, two)).Close() // nothing is done twice

	_, err := open(t.Context(), path, schema(one))
	wantFault(t, err, fault.Rejected, "Another build")
	if n := openAt(t, path, schema(one, two)).number(t, "PRAGMA user_version"); n != 2 {
		t.Errorf("after it was refused: version %d", n)
	}
}

// A database that another build made is refused and left alone.
func TestOtherVersion(t *testing.T) {
	for _, version := range []int{-1, 2, 15} {
		path := filepath.Join(t.TempDir(), "sandbox.db")
		other := openAt(t, path, schema("CREATE TABLE events (a INTEGER); INSERT INTO events VALUES (7)"))
		if err := other.exec(t.Context(), fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), path)
		wantFault(t, err, fault.Rejected, "move "+path+" away")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("version %d, but this program knows 1", version)) {
			t.Errorf("version %d: %v", version, err)
		}
		if _, ok := errors.AsType[bridge.HostOnly](err); !ok {
			t.Errorf("programs are told where the database is: %v", err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("version %d: the file was changed: %v", version, err)
		}
	}
}

func TestBrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	text := []byte(strings.Repeat("this is no database\n", 1000))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path)
	wantFault(t, err, fault.Execution, "Keep a copy")
	if _, ok := errors.AsType[bridge.HostOnly](err); !ok {
		t.Errorf("programs are told where the database is: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(text) {
		t.Errorf("the file was changed: %v", err)
	}
}
