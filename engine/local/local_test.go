package local_test

import (
	"context"
	"os"
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

// newLocal returns the execution SPI on this computer, and the tenants of its commands.
func newLocal(t *testing.T, opts local.Options) (engine.Sandbox, *sync.Map) {
	t.Helper()
	opts.ThisIsUnsafe = true
	e, err := local.NewUNSAFE(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	tenants := new(sync.Map)
	return engine.NewSandbox(func(ctx context.Context, cmd engine.Command, tenant engine.Tenant) (engine.Process, error) {
		tenants.Store(tenant, true)
		return e.Exec(ctx, cmd)
	}), tenants
}

func TestSandbox(t *testing.T) {
	s, tenants := newLocal(t, local.Options{})
	enginetest.Run(t, enginetest.Suite{
		Name:    "local (UNSAFE)",
		Sandbox: s,
		Root:    t.TempDir(),
		Audited: func(_ context.Context, tenant engine.Tenant) (bool, error) {
			_, ok := tenants.Load(tenant)
			return ok, nil
		},
	})
}
