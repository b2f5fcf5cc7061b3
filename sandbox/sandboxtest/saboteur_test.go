package sandboxtest

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

	"osaurus-sandbox/fault"
	"osaurus-sandbox/sandbox"
	"osaurus-sandbox/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Helper()
	os.Exit(m.Run())
}

// honest is a backend that keeps the contract.
func honest(t *testing.T) sandbox.Sandbox {
	t.Helper()
	s, err := local.NewUNSAFE(t.Context(), local.Options{ThisIsUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// saboteurs are backends that break one promise each, with the scenario that
// must find out.
func saboteurs(t *testing.T) map[string]struct {
	scenario string
	spoil    func(sandbox.Sandbox) sandbox.Sandbox
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
		spoil    func(sandbox.Sandbox) sandbox.Sandbox
	}{
		"loses stderr": {"SuccessfulExit", each(func(c sandbox.Chunk) sandbox.Chunk {
			if c.Stream == sandbox.Stderr {
				c.Data = nil
			}
			return c
		})},
		"always says success":   {"NonZeroExit", exits(func(e *sandbox.Exit) { e.Code = 0 })},
		"ignores the timeout":   {"TimeoutKills", requests(func(r *sandbox.Request) { r.Timeout = 0 })},
		"does not say why":      {"TimeoutKills", exits(func(e *sandbox.Exit) { e.TimedOut = false })},
		"ignores the limit":     {"OutputIsTruncated", requests(func(r *sandbox.Request) { r.MaxOutputBytes = 0 })},
		"truncates in silence":  {"OutputIsTruncated", exits(func(e *sandbox.Exit) { e.Truncated = false })},
		"cries truncation":      {"OutputIsTruncated", exits(func(e *sandbox.Exit) { e.Truncated = true })},
		"cancels without trace": {"CancelIsIdempotent", exits(func(e *sandbox.Exit) { e.Signal = "" })},
		"changes its mind": {"CancelIsIdempotent", func() func(sandbox.Sandbox) sandbox.Sandbox {
			return handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
				var asked atomic.Int32
				return bent{Handle: h, exit: func(ctx context.Context) (sandbox.Exit, error) {
					exit, err := h.Exit(ctx)
					exit.Note = fmt.Sprint(asked.Add(1))
					return exit, err
				}}
			})
		}()},
		"ignores ReadOnly": {"ReadOnlyRejectsWrites", requests(func(r *sandbox.Request) { r.ReadOnly = false })},
		"shares its environment": {"ConcurrentStartsAreIsolated", requests(func(r *sandbox.Request) {
			r.Env = maps.Clone(r.Env)
			for k, v := range r.Env {
				first, _ := shared.LoadOrStore(k, v)
				if k != "DIR" { // it is how the suite makes and removes folders
					r.Env[k] = first.(string)
				}
			}
		})},
		"closes once": {"CloseReleases", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			var closed atomic.Bool
			return bent{Handle: h, close: func() error {
				if closed.Swap(true) {
					return errors.New("closed already")
				}
				return h.Close()
			}}
		})},
		"mixes the streams": {"StreamsStayApart", each(func(c sandbox.Chunk) sandbox.Chunk {
			c.Stream = sandbox.Stdout
			return c
		})},
		"believes in text": {"BinaryThrough", each(func(c sandbox.Chunk) sandbox.Chunk {
			c.Data = bytes.ToValidUTF8(c.Data, []byte("?"))
			return c
		})},
		// However many pieces come as one: each is turned round.
		"mixes the order": {"TenThousandChunks", each(func(c sandbox.Chunk) sandbox.Chunk {
			c.Data = slices.Concat(c.Data[len(c.Data)/2:], c.Data[:len(c.Data)/2])
			return c
		})},
		"plays to nobody": {"FirstReaderGetsAll", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			h.Output().Close()
			return h
		})},
		"plays it again": {"LateReaderJoins", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			return newReplay(h)
		})},
		"keeps everything for the slow": {"SlowReader", outputs(func() func(*sandbox.Chunk) []sandbox.Chunk {
			var kept []byte
			return func(c *sandbox.Chunk) []sandbox.Chunk {
				if c == nil {
					return []sandbox.Chunk{{Stream: sandbox.Stdout, Data: kept}}
				}
				kept = append(kept, c.Data...)
				return nil
			}
		})},
		"waits for an audience": {"NobodyReads", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			read := make(chan struct{})
			var once sync.Once
			return bent{Handle: h,
				output: func() *sandbox.Reader { once.Do(func() { close(read) }); return h.Output() },
				exit: func(ctx context.Context) (sandbox.Exit, error) {
					select {
					case <-read:
					case <-ctx.Done():
					}
					return h.Exit(ctx)
				}}
		})},
		"hangs on no input": {"EmptyStdin", requests(func(r *sandbox.Request) {
			if r.Stdin == nil {
				r.Stdin = until{forgotten}
			}
		})},
		"wants its input read": {"UnreadStdin", handles(func(_ context.Context, req sandbox.Request, h sandbox.Handle) sandbox.Handle {
			return bent{Handle: h, exit: func(ctx context.Context) (sandbox.Exit, error) {
				if req.Stdin != nil {
					<-ctx.Done()
				}
				return h.Exit(ctx)
			}}
		})},
		"takes half for the whole": {"BrokenStdin", requests(func(r *sandbox.Request) {
			if r.Stdin != nil {
				r.Stdin = soothed{r.Stdin}
			}
		})},
		"asks a shell": {"ArgumentsVerbatim", requests(func(r *sandbox.Request) {
			if len(r.Command.Args) > 0 {
				r.Command = sandbox.Shell(strings.Join(r.Command.Args, " "))
			}
		})},
		"replaces the environment": {"EnvIsADelta", requests(func(r *sandbox.Request) {
			if _, ok := r.Env["PATH"]; len(r.Env) > 0 && !ok {
				r.Env = maps.Clone(r.Env)
				r.Env["PATH"] = ""
			}
		})},
		"hands on the caller's": {"CallersEnvStays", requests(func(r *sandbox.Request) {
			env := map[string]string{}
			for _, v := range os.Environ() {
				name, value, _ := strings.Cut(v, "=")
				env[name] = value
			}
			maps.Copy(env, r.Env)
			r.Env = env
		})},
		"works elsewhere": {"WorksInWorkspace", requests(func(r *sandbox.Request) {
			r.WorkspaceRoot = strings.TrimSuffix(r.WorkspaceRoot, "/deeper")
		})},
		"knows one kind of error": {"CommandNotFound", func(s sandbox.Sandbox) sandbox.Sandbox {
			return meddler{Sandbox: s, refusal: func(err error) error { return fault.New(fault.Execution, "start", "", err) }}
		}},
		"starts what it cannot find": {"CommandNotFound", requests(func(r *sandbox.Request) {
			if len(r.Command.Args) > 0 {
				r.Command = sandbox.Shell("exit 127")
			}
		})},
		"takes what it can": {"BadRequests", requests(func(r *sandbox.Request) { r.Timeout = max(r.Timeout, 0) })},
		"ends with its start": {"StartContext", handles(func(ctx context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			context.AfterFunc(ctx, h.Cancel)
			return h
		})},
		"forgets for whom": {"TenantIsAudited", requests(func(r *sandbox.Request) { r.Tenant = "" })},
		"asks the context first": {"ExitIsCached", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			return bent{Handle: h, exit: func(ctx context.Context) (sandbox.Exit, error) {
				if err := ctx.Err(); err != nil {
					return sandbox.Exit{}, err
				}
				return h.Exit(ctx)
			}}
		})},
		"counts from 128": {"SignalIsNamed", exits(func(e *sandbox.Exit) {
			if e.Signal == "KILL" {
				e.Code, e.Signal = 137, ""
			}
		})},
		"is not patient": {"CancelLetsCleanUp", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			return bent{Handle: h, cancel: func() { _ = h.Close() }}
		})},
		"lets the last word win": {"CancelRaces", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			var closed atomic.Bool
			return bent{Handle: h,
				close: func() error { err := h.Close(); closed.Store(true); return err },
				exit: func(ctx context.Context) (sandbox.Exit, error) {
					exit, err := h.Exit(ctx)
					if closed.Load() {
						exit.Note = "closed"
					}
					return exit, err
				}}
		})},
		"closes at the end": {"CloseWithoutReading", handles(func(ctx context.Context, req sandbox.Request, h sandbox.Handle) sandbox.Handle {
			return bent{Handle: h, close: func() error {
				if strings.Contains(req.Command.Line, "while :") {
					<-ctx.Done()
				}
				return h.Close()
			}}
		})},
		"kills one process": {"NothingRemains", func(sandbox.Sandbox) sandbox.Sandbox { return careless{} }},
		"leaks goroutines": {"NothingLeaks", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			go func() { <-forgotten }()
			return h
		})},
		"leaks descriptors": {"NothingLeaks", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			if f, err := os.Open(os.DevNull); err == nil {
				files = append(files, f)
			}
			return h
		})},
		"has room for fifty": {"HundredStarts", handles(func(_ context.Context, _ sandbox.Request, h sandbox.Handle) sandbox.Handle {
			n := running.Add(1)
			return bent{Handle: h,
				close: func() error { running.Add(-1); return h.Close() },
				exit: func(ctx context.Context) (sandbox.Exit, error) {
					if n > 50 {
						return sandbox.Exit{}, fault.Newf(fault.Rejected, "start", "", "too many")
					}
					return h.Exit(ctx)
				}}
		})},
		"looks at the command": {"ReadOnlyTricks", requests(func(r *sandbox.Request) {
			r.ReadOnly = r.ReadOnly && !strings.Contains(r.Command.Line, "chmod 777 file")
		})},
		"leaves no room": {"ReadOnlyScratch", requests(func(r *sandbox.Request) { r.Env = map[string]string{"TMPDIR": r.WorkspaceRoot} })},
	}
}

func TestSaboteursAreFoundOut(t *testing.T) {
	scenarios := map[string]Scenario{}
	for _, s := range Scenarios() {
		scenarios[s.Name] = s
	}
	caught := map[string]bool{}
	for name, saboteur := range saboteurs(t) {
		caught[saboteur.scenario] = true
		t.Run(name, func(t *testing.T) {
			// Leaks are counted in the whole program.
			if saboteur.scenario != "NothingLeaks" {
				t.Parallel()
			}
			var mu sync.Mutex
			tenants := map[sandbox.Tenant]bool{}
			spoilt := saboteur.spoil(sandbox.Recorded(honest(t), func(req sandbox.Request) error {
				mu.Lock()
				defer mu.Unlock()
				tenants[req.Tenant] = true
				return nil
			}))
			suite := Suite{Name: name, soon: 5 * time.Second, Sandbox: spoilt, Root: t.TempDir(), Audited: func(_ context.Context, tenant sandbox.Tenant) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				return tenants[tenant], nil
			}}
			result := scenarios[saboteur.scenario].run(t.Context(), suite)
			if result.Outcome != Failed || result.Detail == "" {
				t.Fatalf("%s: %s", saboteur.scenario, result.Outcome)
			}
			t.Log(result.Detail)
		})
	}
	for name := range scenarios {
		if !caught[name] {
			t.Errorf("no saboteur shows that %s can fail", name)
		}
	}
}
