// Package storetest makes databases with agents in them, for tests of what is kept of agents.
package storetest

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/store"
)

// New makes a database with agents of some names, and returns them as those who ask
// over the bridge. It is closed when the test ends.
func New(t testing.TB, names ...config.AgentName) (*store.DB, []bridge.Caller) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	var callers []bridge.Caller
	for _, name := range names {
		who, err := Add(t.Context(), db, name)
		if err != nil {
			t.Fatal(err)
		}
		callers = append(callers, who)
	}
	return db, callers
}

// Add makes one more agent.
func Add(ctx context.Context, db *store.DB, name config.AgentName) (bridge.Caller, error) {
	who := bridge.Caller{Agent: config.NewAgentID(), Name: name, User: name.User(), Plugin: "weather"}
	return who, db.Write(ctx, "add agent", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO agents (id, name, user, folder, created, settings) VALUES (?, ?, ?, ?, 0, '{}')", who.Agent, name, who.User, name)
		return err
	})
}

// Delete deletes an agent.
func Delete(t testing.TB, db *store.DB, who bridge.Caller) {
	t.Helper()
	err := db.Write(t.Context(), "delete agent", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "DELETE FROM agents WHERE id = ?", who.Agent)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Count is what a query counts.
func Count(t testing.TB, db *store.DB, query string, args ...any) (n int) {
	t.Helper()
	err := db.Read(t.Context(), "count", func(tx *sql.Tx) error { return tx.QueryRowContext(t.Context(), query, args...).Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}
