// Package storetest makes databases with agents for tests.
package storetest

import (
	"context"
	"path/filepath"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/store"
)

// New makes a database with agents, and returns the agents as callers of the bridge. The database
// is closed when the test ends.
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

// Add creates an agent.
func Add(ctx context.Context, db *store.DB, name config.AgentName) (bridge.Caller, error) {
	who := bridge.Caller{Agent: config.NewAgentID(), Name: name, User: name.User(), Plugin: "weather"}
	_, err := db.Exec(ctx, "add agent", "INSERT INTO agents (id, name, user, folder, created, settings) VALUES (?, ?, ?, ?, 0, '{}')", who.Agent, name, who.User, name)
	return who, err
}

// Delete deletes an agent.
func Delete(t testing.TB, db *store.DB, who bridge.Caller) {
	t.Helper()
	if _, err := db.Exec(t.Context(), "delete agent", "DELETE FROM agents WHERE id = ?", who.Agent); err != nil {
		t.Fatal(err)
	}
}

// Count returns the number that a query returns.
func Count(t testing.TB, db *store.DB, query string, args ...any) int {
	t.Helper()
	n, _, err := store.Find(t.Context(), db, "count", store.Value[int], query, args...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
