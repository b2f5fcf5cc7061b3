package enginetest

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/engine/local"
)

func TestMain(m *testing.M) {
	local.Helper()
	os.Exit(m.Run())
}

// correct returns a backend that keeps the contract.
func correct(t *testing.T) engine.Sandbox {
	t.Helper()
	s, err := local.NewUNSAFE(t.Context(), local.Options{ThisIsUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// broken lists backends that break one promise each, with the scenario that
// must fail.
var broken = map[string]struct {
	scenario string
	change   func(engine.Sandbox) engine.Sandbox
}{
	"loses stderr": {"SuccessfulExit", each(func(c engine.Chunk) engine.Chunk {
		if c.Stream == engine.Stderr {
			c.Data = nil
		}
		return c
	})},
	"always says success":   {"NonZeroExit", exits(func(e *engine.ExitStatus) { e.Code = 0 })},
	"ignores the timeout":   {"TimeoutKills", requests(func(r *engine.Request) { r.Timeout = 0 })},
	"does not say why":      {"TimeoutKills", exits(func(e *engine.ExitStatus) { e.TimedOut = false })},
	"ignores the limit":     {"OutputIsTruncated", requests(func(r *engine.Request) { r.MaxOutputBytes = 0 })},
	"truncates in silence":  {"OutputIsTruncated", exits(func(e *engine.ExitStatus) { e.Truncated = false })},
	"cries truncation":      {"OutputIsTruncated", exits(func(e *engine.ExitStatus) { e.Truncated = true })},
	"cancels without trace": {"CancelIsIdempotent", exits(func(e *engine.ExitStatus) { e.Signal = "" })},
	"ignores ReadOnly":      {"ReadOnlyRejectsWrites", requests(func(r *engine.Request) { r.ReadOnly = false })},
	"mixes the streams": {"StreamsStayApart", each(func(c engine.Chunk) engine.Chunk {
		c.Stream = engine.Stdout
		return c
	})},
	"believes in text": {"BinaryThrough", each(func(c engine.Chunk) engine.Chunk {
		c.Data = bytes.ToValidUTF8(c.Data, []byte("?"))
		return c
	})},
	"mixes the order": {"TenThousandChunks", each(func(c engine.Chunk) engine.Chunk {
		c.Data = slices.Concat(c.Data[len(c.Data)/2:], c.Data[:len(c.Data)/2])
		return c
	})},
	"asks a shell": {"ArgumentsVerbatim", requests(func(r *engine.Request) {
		if len(r.Command.Args) > 0 {
			r.Command = engine.ShellLine(strings.Join(r.Command.Args, " "))
		}
	})},
	"replaces the environment": {"EnvIsADelta", requests(func(r *engine.Request) {
		if _, ok := r.Env["PATH"]; len(r.Env) > 0 && !ok {
			r.Env = maps.Clone(r.Env)
			r.Env["PATH"] = ""
		}
	})},
	"hands on the caller's": {"CallersEnvStays", requests(func(r *engine.Request) {
		env := map[string]string{}
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		maps.Copy(env, r.Env)
		r.Env = env
	})},
	"works elsewhere": {"WorksInWorkspace", requests(func(r *engine.Request) {
		r.WorkspaceRoot = strings.TrimSuffix(r.WorkspaceRoot, "/deeper")
	})},
	"starts what it cannot find": {"CommandNotFound", requests(func(r *engine.Request) {
		if len(r.Command.Args) > 0 {
			r.Command = engine.ShellLine("exit 127")
		}
	})},
	"takes what it can": {"BadRequests", requests(func(r *engine.Request) { r.Timeout = max(r.Timeout, 0) })},
	"forgets for whom":  {"TenantIsAudited", requests(func(r *engine.Request) { r.Tenant = "" })},
	"counts from 128": {"SignalIsNamed", exits(func(e *engine.ExitStatus) {
		if e.Signal == "KILL" {
			e.Code, e.Signal = 137, ""
		}
	})},
	"looks at the command": {"ReadOnlyTricks", requests(func(r *engine.Request) {
		r.ReadOnly = r.ReadOnly && !strings.Contains(r.Command.Line, "chmod 777 file")
	})},
	"leaves no room": {"ReadOnlyScratch", requests(func(r *engine.Request) { r.Env = map[string]string{"TMPDIR": r.WorkspaceRoot} })},
}

func TestBrokenBackendsFail(t *testing.T) {
	scenarios := map[string]Scenario{}
	for _, s := range Scenarios() {
		scenarios[s.Name] = s
	}
	for name, backend := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			tenants := map[engine.Tenant]bool{}
			sandbox := backend.change(engine.Recorded(correct(t), func(req engine.Request) error {
				mu.Lock()
				defer mu.Unlock()
				tenants[req.Tenant] = true
				return nil
			}))
			suite := Suite{Name: name, soon: 5 * time.Second, Sandbox: sandbox, Root: t.TempDir(), Audited: func(_ context.Context, tenant engine.Tenant) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				return tenants[tenant], nil
			}}
			result := scenarios[backend.scenario].run(t.Context(), suite)
			if result.Outcome != Failed || result.Detail == "" {
				t.Fatalf("%s: %s", backend.scenario, result.Outcome)
			}
			t.Log(result.Detail)
		})
	}
}
