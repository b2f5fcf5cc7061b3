package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/engine/local"
	"osaurus-sandbox/internal/fault"
)

func TestMain(m *testing.M) {
	local.Helper()
	os.Exit(m.Run())
}

// honest returns a sandbox that keeps the contract. Tenants are recorded in the map.
func honest(t *testing.T, tenants *sync.Map) engine.Sandbox {
	t.Helper()
	e, err := local.NewUNSAFE(t.Context(), local.Options{ThisIsUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	return engine.NewSandbox(func(ctx context.Context, cmd engine.Command, tenant engine.Tenant) (engine.Process, error) {
		tenants.Store(tenant, true)
		return e.Exec(ctx, cmd)
	})
}

// saboteurs break one promise each. They name the scenario that must fail.
func saboteurs(t *testing.T) map[string]struct {
	scenario string
	spoil    func(engine.Sandbox) engine.Sandbox
} {
	forgotten := make(chan struct{}) // closed when the test ends
	var files []*os.File
	t.Cleanup(func() {
		close(forgotten)
		for _, f := range files {
			_ = f.Close()
		}
	})
	var shared sync.Map
	var running atomic.Int32
	return map[string]struct {
		scenario string
		spoil    func(engine.Sandbox) engine.Sandbox
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
		"changes its mind": {"CancelIsIdempotent", func() func(engine.Sandbox) engine.Sandbox {
			return handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
				var asked atomic.Int32
				return brokenHandle{Handle: h, exit: func(ctx context.Context) (engine.ExitStatus, error) {
					exit, err := h.Exit(ctx)
					exit.Note = fmt.Sprint(asked.Add(1))
					return exit, err
				}}
			})
		}()},
		"ignores ReadOnly": {"ReadOnlyRejectsWrites", requests(func(r *engine.Request) { r.ReadOnly = false })},
		"shares its environment": {"ConcurrentStartsAreIsolated", requests(func(r *engine.Request) {
			r.Env = maps.Clone(r.Env)
			for k, v := range r.Env {
				first, _ := shared.LoadOrStore(k, v)
				if k != "DIR" { // it is how the suite makes and removes folders
					r.Env[k] = first.(string)
				}
			}
		})},
		"closes once": {"CloseReleases", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			var closed atomic.Bool
			return brokenHandle{Handle: h, close: func() error {
				if closed.Swap(true) {
					return errors.New("closed already")
				}
				return h.Close()
			}}
		})},
		"mixes the streams": {"StreamsStayApart", each(func(c engine.Chunk) engine.Chunk {
			c.Stream = engine.Stdout
			return c
		})},
		"believes in text": {"BinaryThrough", each(func(c engine.Chunk) engine.Chunk {
			c.Data = bytes.ToValidUTF8(c.Data, []byte("?"))
			return c
		})},
		// Each chunk is rotated, because the chunks may be merged.
		"mixes the order": {"TenThousandChunks", each(func(c engine.Chunk) engine.Chunk {
			c.Data = slices.Concat(c.Data[len(c.Data)/2:], c.Data[:len(c.Data)/2])
			return c
		})},
		"plays to nobody": {"FirstReaderGetsAll", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			h.Output().Close()
			return h
		})},
		"plays it again": {"LateReaderJoins", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			return newReplay(h)
		})},
		"keeps everything for the slow": {"SlowReader", outputs(func() func(*engine.Chunk) []engine.Chunk {
			var kept []byte
			return func(c *engine.Chunk) []engine.Chunk {
				if c == nil {
					return []engine.Chunk{{Stream: engine.Stdout, Data: kept}}
				}
				kept = append(kept, c.Data...)
				return nil
			}
		})},
		"waits for an audience": {"NobodyReads", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			read := make(chan struct{})
			var once sync.Once
			return brokenHandle{Handle: h,
				output: func() *engine.Reader { once.Do(func() { close(read) }); return h.Output() },
				exit: func(ctx context.Context) (engine.ExitStatus, error) {
					select {
					case <-read:
					case <-ctx.Done():
					}
					return h.Exit(ctx)
				}}
		})},
		"hangs on no input": {"EmptyStdin", requests(func(r *engine.Request) {
			if r.Stdin == nil {
				r.Stdin = until{forgotten}
			}
		})},
		"wants its input read": {"UnreadStdin", handles(func(_ context.Context, req engine.Request, h engine.Handle) engine.Handle {
			return brokenHandle{Handle: h, exit: func(ctx context.Context) (engine.ExitStatus, error) {
				if req.Stdin != nil {
					<-ctx.Done()
				}
				return h.Exit(ctx)
			}}
		})},
		"takes half for the whole": {"BrokenStdin", requests(func(r *engine.Request) {
			if r.Stdin != nil {
				r.Stdin = silenced{r.Stdin}
			}
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
		"knows one kind of error": {"CommandNotFound", func(s engine.Sandbox) engine.Sandbox {
			return brokenSandbox{Sandbox: s, refusal: func(err error) error { return fault.New(fault.Execution, "start", "", err) }}
		}},
		"starts what it cannot find": {"CommandNotFound", requests(func(r *engine.Request) {
			if len(r.Command.Args) > 0 {
				r.Command = engine.ShellLine("exit 127")
			}
		})},
		"takes what it can": {"BadRequests", requests(func(r *engine.Request) { r.Timeout = max(r.Timeout, 0) })},
		"ends with its start": {"StartContext", handles(func(ctx context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			context.AfterFunc(ctx, h.Cancel)
			return h
		})},
		"forgets for whom": {"TenantIsAudited", requests(func(r *engine.Request) { r.Tenant = "" })},
		"asks the context first": {"ExitIsCached", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			return brokenHandle{Handle: h, exit: func(ctx context.Context) (engine.ExitStatus, error) {
				if err := ctx.Err(); err != nil {
					return engine.ExitStatus{}, err
				}
				return h.Exit(ctx)
			}}
		})},
		"counts from 128": {"SignalIsNamed", exits(func(e *engine.ExitStatus) {
			if e.Signal == "KILL" {
				e.Code, e.Signal = 137, ""
			}
		})},
		"is not patient": {"CancelLetsCleanUp", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			return brokenHandle{Handle: h, cancel: func() { _ = h.Close() }}
		})},
		"lets the last word win": {"CancelRaces", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			var closed atomic.Bool
			return brokenHandle{Handle: h,
				close: func() error { err := h.Close(); closed.Store(true); return err },
				exit: func(ctx context.Context) (engine.ExitStatus, error) {
					exit, err := h.Exit(ctx)
					if closed.Load() {
						exit.Note = "closed"
					}
					return exit, err
				}}
		})},
		"closes at the end": {"CloseWithoutReading", handles(func(ctx context.Context, req engine.Request, h engine.Handle) engine.Handle {
			return brokenHandle{Handle: h, close: func() error {
				if strings.Contains(req.Command.Line, "while :") {
					<-ctx.Done()
				}
				return h.Close()
			}}
		})},
		"kills one process": {"NothingRemains", func(engine.Sandbox) engine.Sandbox { return engine.NewSandbox(careless) }},
		"leaks goroutines": {"NothingLeaks", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			go func() { <-forgotten }()
			return h
		})},
		"leaks descriptors": {"NothingLeaks", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			if f, err := os.Open(os.DevNull); err == nil {
				files = append(files, f)
			}
			return h
		})},
		"has room for fifty": {"HundredStarts", handles(func(_ context.Context, _ engine.Request, h engine.Handle) engine.Handle {
			n := running.Add(1)
			return brokenHandle{Handle: h,
				close: func() error { running.Add(-1); return h.Close() },
				exit: func(ctx context.Context) (engine.ExitStatus, error) {
					if n > 50 {
						return engine.ExitStatus{}, fault.Newf(fault.Rejected, "start", "", "too many")
					}
					return h.Exit(ctx)
				}}
		})},
		"looks at the command": {"ReadOnlyTricks", requests(func(r *engine.Request) {
			r.ReadOnly = r.ReadOnly && !strings.Contains(r.Command.Line, "chmod 777 file")
		})},
		"leaves no room": {"ReadOnlyScratch", requests(func(r *engine.Request) { r.Env = map[string]string{"TMPDIR": r.WorkspaceRoot} })},
	}
}

func TestSaboteursAreFoundOut(t *testing.T) {
	all := map[string]scenario{}
	for _, s := range scenarios() {
		all[s.name] = s
	}
	caught := map[string]bool{}
	for name, saboteur := range saboteurs(t) {
		caught[saboteur.scenario] = true
		t.Run(name, func(t *testing.T) {
			// Leaks are counted in the whole program.
			if saboteur.scenario != "NothingLeaks" {
				t.Parallel()
			}
			var tenants sync.Map
			spoilt := saboteur.spoil(honest(t, &tenants))
			suite := Suite{Name: name, soon: 5 * time.Second, Sandbox: spoilt, Root: t.TempDir(), Audited: func(_ context.Context, tenant engine.Tenant) (bool, error) {
				_, ok := tenants.Load(tenant)
				return ok, nil
			}}
			outcome, detail := all[saboteur.scenario].run(t.Context(), suite)
			if outcome != failed || detail == "" {
				t.Fatalf("%s: %s", saboteur.scenario, outcome)
			}
			t.Log(detail)
		})
	}
	for name := range all {
		if !caught[name] {
			t.Errorf("no saboteur shows that %s can fail", name)
		}
	}
}
