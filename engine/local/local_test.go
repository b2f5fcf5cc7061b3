package local_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/engine/enginetest"
	"osaurus-sandbox/engine/local"
)

func TestMain(m *testing.M) {
	local.Helper()
	os.Exit(m.Run())
}

func newLocal(t *testing.T) *local.Sandbox {
	t.Helper()
	s, err := local.NewUNSAFE(t.Context(), local.Options{ThisIsUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// records is a record of who ran commands.
type records struct {
	mu      sync.Mutex
	tenants []engine.Tenant
}

func (r *records) add(req engine.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenants = append(r.tenants, req.Tenant)
	return nil
}

func (r *records) has(_ context.Context, tenant engine.Tenant) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.tenants, tenant), nil
}

func TestSandbox(t *testing.T) {
	var audit records
	enginetest.Run(t, enginetest.Suite{
		Name:    "local (UNSAFE)",
		Sandbox: engine.Recorded(newLocal(t), audit.add),
		Root:    t.TempDir(),
		Audited: audit.has,
	})
}
