package vault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/supervisor/vault"
)

const (
	alice  = config.AgentID("0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	bob    = config.AgentID("1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	canary = "canary-3ac1f7"
)

// rig is a vault over files and fake stores.
type rig struct {
	*vault.Vault
	t     *testing.T
	path  string // of the database
	db    *store.DB
	audit *audit.Log
	log   *lines

	mu     sync.Mutex
	which  config.SecretStore
	stores map[config.SecretStore]secrets.Store
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (r *rig) choose(which config.SecretStore) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.which = which
}

type declared map[config.PluginID][]config.SecretName

func (d declared) Declared(_ config.AgentID, plugin config.PluginID) ([]config.SecretName, bool) {
	names, installed := d[plugin]
	return names, installed
}

func newRig(t *testing.T, plugins declared) *rig {
	t.Helper()
	t.Setenv(agefile.PassphraseFileVariable, "")
	home := config.Home(t.TempDir())
	path := filepath.Join(string(home), "db")
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	bindings, err := vault.OpenBindings(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, path: path, db: db, audit: audit.New(db), log: &lines{}, which: config.SecretsInFile, stores: map[config.SecretStore]secrets.Store{config.SecretsInFile: agefile.New(home, nil)}}
	r.Vault = vault.New(vault.Options{
		Home: home, Declared: plugins.Declared, Bindings: bindings, Audit: r.audit, Log: slog.New(slog.NewTextHandler(r.log, nil)), Patience: patience,
		Which: func() config.SecretStore { r.mu.Lock(); defer r.mu.Unlock(); return r.which },
		Open:  func(which config.SecretStore) secrets.Store { return r.stores[which] },
	})
	t.Cleanup(func() {
		r.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if r.log.count(canary) > 0 {
			t.Errorf("a value is in the log: %s", &r.log.text)
		}
	})
	return r
}

func key(plugin config.PluginID, name config.SecretName) secrets.Key {
	return secrets.Key{Agent: alice, Plugin: plugin, Name: name}
}

func (r *rig) set(k secrets.Key, text string) {
	r.t.Helper()
	v, err := secrets.ParseValue(text)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Set(r.t.Context(), k, v); err != nil {
		r.t.Fatal(err)
	}
}

// A plugin's secrets come before the agent's own, a plugin that is installed gets
// those that it declares, and nobody gets another agent's. All of it is in the audit.
func TestS10Get(t *testing.T) {
	r := newRig(t, declared{"strict": {"TOKEN"}, "empty": nil})
	r.set(key("", "TOKEN"), canary+"-own")
	r.set(key("", "OTHER"), canary+"-other")
	r.set(key("notes", "TOKEN"), canary+"-notes")
	r.set(key("strict", "HIDDEN"), canary+"-hidden")
	for _, tc := range []struct {
		agent  config.AgentID
		plugin config.PluginID
		name   config.SecretName
		want   string
		kind   fault.Kind
	}{
		{alice, "", "TOKEN", "own", ""},
		{alice, "notes", "TOKEN", "notes", ""},
		{alice, "notes", "OTHER", "other", ""},
		{alice, "home-folder", "TOKEN", "own", ""}, // a name space that is no plugin
		{alice, "strict", "TOKEN", "own", ""},
		{alice, "strict", "HIDDEN", "", fault.Rejected},
		{alice, "strict", "OTHER", "", fault.Rejected},
		{alice, "empty", "TOKEN", "", fault.Rejected},
		{alice, "", "HIDDEN", "", fault.NotFound},
		{alice, "", "MISSING", "", fault.NotFound},
		{bob, "", "TOKEN", "", fault.NotFound},
		{bob, "notes", "TOKEN", "", fault.NotFound},
	} {
		who := bridge.Caller{Agent: tc.agent, Name: "alice", User: "agent-alice", Plugin: tc.plugin}
		v, err := r.Get(t.Context(), who, tc.name)
		if fault.KindOf(err) != tc.kind && err != nil || (err != nil) != (tc.kind != "") || err == nil && v.Reveal() != canary+"-"+tc.want {
			t.Errorf("%s of %q: %q, %v; want %q, %s", tc.name, tc.plugin, v.Reveal(), err, tc.want, tc.kind)
		}
		var last audit.Entry
		for e, err := range r.audit.List(t.Context(), audit.Filter{Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			last = e
		}
		outcome := audit.OK
		if tc.kind != "" {
			outcome = audit.Outcome(tc.kind)
		}
		if last.Action != "secret.read" || last.Agent != "alice" || last.Client != "bridge" || !strings.Contains(last.Subject, string(tc.name)) ||
			!strings.Contains(last.Subject, string(tc.plugin)) || last.Outcome != outcome || strings.Contains(fmt.Sprint(last), canary) {
			t.Errorf("%s of %q is in the audit as %+v", tc.name, tc.plugin, last)
		}
	}
}

// A read that cannot be audited fails.
func TestS10GetWithoutAudit(t *testing.T) {
	r := newRig(t, nil)
	r.set(key("", "TOKEN"), canary)
	broken, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	broken.Close()
	r.Audit = audit.New(broken)
	if v, err := r.Get(t.Context(), bridge.Caller{Agent: alice, Name: "alice"}, "TOKEN"); err == nil || v.Reveal() != "" {
		t.Errorf("%q, %v", v.Reveal(), err)
	}
}

// The audit has the details of a broken store. Programs do not learn where it is.
func TestGetFromABrokenStore(t *testing.T) {
	r := newRig(t, nil)
	r.set(key("", "TOKEN"), canary)
	if err := os.WriteFile(r.Home.Secrets(), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := r.Get(t.Context(), bridge.Caller{Agent: alice, Name: "alice"}, "TOKEN")
	if text := fmt.Sprint(err, fault.AdviceOf(err)); fault.KindOf(err) != fault.Unavailable || strings.Contains(text, string(r.Home)) || !strings.Contains(text, "doctor") {
		t.Errorf("a program reads %q", text)
	}
	for e, err := range r.audit.List(t.Context(), audit.Filter{Limit: 1}) {
		if err != nil || !strings.Contains(e.Detail, "damaged") {
			t.Errorf("the audit has %+v, %v", e, err)
		}
	}
}

// text redacts a text.
func text(live *redact.Live, in string) string { return live.Scrubber().Text(in) }

// Output is redacted by the agent's secrets: those in the store, and those set or read later, also when
// they are deleted.
func TestRedact(t *testing.T) {
	r := newRig(t, nil)
	elsewhere := agefile.New(r.Home, nil) // another program
	v, _ := secrets.ParseValue(canary + "-first")
	if err := elsewhere.Set(t.Context(), key("", "FIRST"), v); err != nil {
		t.Fatal(err)
	}
	live := r.Redact(t.Context(), alice)
	if got := text(live, canary+"-first"); got != "[REDACTED:FIRST]" {
		t.Errorf("what was in the store: %q", got)
	}
	r.set(key("notes", "SECOND"), canary+"-second")
	if got := text(live, canary+"-first "+canary+"-second"); got != "[REDACTED:FIRST] [REDACTED:SECOND]" {
		t.Errorf("what was set: %q", got)
	}
	v, _ = secrets.ParseValue(canary + "-third")
	if err := elsewhere.Set(t.Context(), key("", "THIRD"), v); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(t.Context(), bridge.Caller{Agent: alice, Name: "alice"}, "THIRD"); err != nil {
		t.Fatal(err)
	}
	if got := text(live, canary+"-third"); got != "[REDACTED:THIRD]" {
		t.Errorf("what was read: %q", got)
	}
	if got := text(r.Redact(t.Context(), bob), canary+"-first"); got != canary+"-first" {
		t.Errorf("for another agent: %q", got)
	}
	if err := r.Delete(t.Context(), key("", "FIRST")); err != nil {
		t.Fatal(err)
	}
	if got := text(live, canary+"-first"); got != "[REDACTED:FIRST]" {
		t.Errorf("what was deleted: %q", got)
	}
	if got := r.Redacted(alice).Text(canary + "-third"); got != "[REDACTED:THIRD]" {
		t.Errorf("without a wait: %q", got)
	}
	n, err := r.DeleteAll(t.Context(), alice)
	if keys, listed := r.List(t.Context(), alice); n != 2 || err != nil || len(keys) != 0 || listed != nil {
		t.Errorf("%d deleted, %v; left are %v, %v", n, err, keys, listed)
	}
}

// A value that a program got stays redacted after it was replaced or deleted, by this
// program or by another one, since the program may go on writing it.
func TestFormerValuesAreRedacted(t *testing.T) {
	r := newRig(t, nil)
	live := r.Redact(t.Context(), alice)
	value := func(n int) string { return fmt.Sprint(canary, "-", n) }
	for n, replace := range []func() error{
		func() error { r.set(key("", "TOKEN"), value(1)); return nil },
		func() error { return r.Delete(t.Context(), key("", "TOKEN")) },
		func() error { // elsewhere, and noticed when it is lent again
			v, _ := secrets.ParseValue(value(3))
			return agefile.New(r.Home, nil).Set(t.Context(), key("", "TOKEN"), v)
		},
		func() error { return nil },
	} {
		if n != 1 && n != 3 {
			r.set(key("", "TOKEN"), value(n))
		}
		if _, err := r.Get(t.Context(), bridge.Caller{Agent: alice, Name: "alice"}, "TOKEN"); err != nil {
			t.Fatal(err)
		}
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		for old := range n + 1 {
			if got := text(live, value(old)); got != "[REDACTED:TOKEN]" {
				t.Errorf("after step %d, value %d is %q", n, old, got)
			}
		}
	}
}

// memory is a fast store of alice's secrets.
type memory struct {
	mu     sync.Mutex
	values map[secrets.Key]secrets.Value
}

func (m *memory) Check(context.Context) (string, error) { return "in memory", nil }

func (m *memory) Get(_ context.Context, k secrets.Key) (secrets.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, there := m.values[k]; there {
		return v, nil
	}
	return secrets.Value{}, secrets.Missing.Fault("read secret", string(k.Name), nil)
}

func (m *memory) Set(_ context.Context, k secrets.Key, v secrets.Value) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[k] = v
	return nil
}

func (m *memory) Delete(_ context.Context, k secrets.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, k)
	return nil
}

func (m *memory) List(_ context.Context, agent config.AgentID) ([]secrets.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(m.values), secrets.Key.Compare)
	return slices.DeleteFunc(keys, func(k secrets.Key) bool { return k.Agent != agent }), nil
}

// An agent has as many secrets as are redacted, also if another program adds some.
func TestMoreSecretsThanAreRedacted(t *testing.T) {
	r := newRig(t, nil)
	keyring := &memory{values: map[secrets.Key]secrets.Value{}}
	r.stores[config.SecretsInKeychain] = keyring
	r.choose(config.SecretsInKeychain)
	const most = redact.MaxSecrets - 16
	name := func(n int) config.SecretName { return config.SecretName(fmt.Sprintf("S%03d", n)) }
	value := func(n int) string { return fmt.Sprintf("%s-%03d", canary, n) }
	for n := range most {
		r.set(key("", name(n)), value(n))
	}
	more, err := secrets.ParseValue(value(most))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Set(t.Context(), key("", name(most)), more); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "secret list") {
		t.Errorf("one more: %v", err)
	}
	err = r.Bind(t.Context(), key("", name(most)), more, secrets.Binding{Hosts: []string{"api.example.org"}})
	if _, bound := r.Binding(key("", name(most))); fault.KindOf(err) != fault.Rejected || bound {
		t.Errorf("one more that is bound: %v", err)
	}
	r.set(key("", name(0)), value(0)) // that one is no more
	if err := keyring.Set(t.Context(), key("", name(most)), more); err != nil {
		t.Fatal(err)
	}
	lend := func(n int) error {
		_, err := r.Lend(t.Context(), bridge.Caller{Agent: alice, Name: "alice"}, []config.SecretName{name(n)}, "a test")
		return err
	}
	live := r.Redact(t.Context(), alice)
	if err := r.Set(t.Context(), key("", name(most)), more); fault.KindOf(err) != fault.Rejected {
		t.Errorf("one beyond those that are redacted: %v", err)
	}
	for n := range most {
		if err := lend(n); err != nil || text(live, value(n)) != redact.Label(name(n)) {
			t.Fatalf("%d: %v", n, err)
		}
	}
	if err := lend(most); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a program got a value that is not redacted: %v", err)
	}
	for e, err := range r.audit.List(t.Context(), audit.Filter{Limit: 1}) {
		if err != nil || e.Outcome != audit.Outcome(fault.Rejected) {
			t.Errorf("the audit has %+v, %v", e, err)
		}
	}
	if err := r.Delete(t.Context(), key("", name(0))); err != nil {
		t.Fatal(err)
	}
	if err := lend(most); err != nil {
		t.Errorf("in the place of one that was deleted: %v", err)
	}
	for n := range most + 1 {
		if got := text(live, value(n)); got != redact.Label(name(n)) {
			t.Errorf("%d is read as %q", n, got)
		}
	}
}

// slow is a keyring that takes a moment to list its secrets.
type slow struct{ *memory }

func (s slow) List(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	keys, err := s.memory.List(ctx, agent)
	time.Sleep(20 * time.Millisecond)
	return keys, err
}

// Clients that set secrets at the same time stay within the limit together.
func TestSecretsSetTogether(t *testing.T) {
	r := newRig(t, nil)
	keyring := &memory{values: map[secrets.Key]secrets.Value{}}
	r.stores[config.SecretsInKeychain] = slow{keyring}
	r.choose(config.SecretsInKeychain)
	value, err := secrets.ParseValue(canary)
	if err != nil {
		t.Fatal(err)
	}
	const most, clients = redact.MaxSecrets - 16, 8
	for n := range most - 1 {
		if err := keyring.Set(t.Context(), key("", config.SecretName(fmt.Sprintf("S%03d", n))), value); err != nil {
			t.Fatal(err)
		}
	}
	var kept atomic.Int32
	var work sync.WaitGroup
	for n := range clients {
		work.Go(func() {
			name := key("", config.SecretName(fmt.Sprintf("T%03d", n)))
			set := r.Set
			if n%2 == 0 {
				set = func(ctx context.Context, k secrets.Key, value secrets.Value) error {
					return r.Bind(ctx, k, value, secrets.Binding{Hosts: []string{"api.example.org"}})
				}
			}
			switch err := set(t.Context(), name, value); {
			case err == nil:
				kept.Add(1)
			case fault.KindOf(err) != fault.Rejected:
				t.Error(err)
			}
		})
	}
	work.Wait()
	if keys, err := keyring.List(t.Context(), alice); err != nil || len(keys) != most || kept.Load() != 1 {
		t.Errorf("%d secrets, %v, and %d clients succeeded", len(keys), err, kept.Load())
	}
}

// stuck is a keyring that hangs or is locked.
type stuck struct {
	secrets.Store
	locked bool
	asked  chan struct{} // one for each question
}

func (s stuck) Check(ctx context.Context) (string, error) {
	s.asked <- struct{}{}
	if s.locked {
		return "", secrets.Locked.Fault("check secrets", "it", nil)
	}
	<-ctx.Done()
	return "", ctx.Err()
}

// A locked keyring delays no command and shows no dialog. One that hangs delays the first command for
// a moment. Each is logged once.
func TestKeyringThatDoesNotAnswer(t *testing.T) {
	const (
		brief = 200 * time.Millisecond // what is waited out
		quick = time.Minute            // is not waited for, on a busy host
		ever  = 10 * quick             // would be seen
	)
	r := newRig(t, nil)
	r.Patience = ever
	locked, hangs := stuck{nil, true, make(chan struct{}, 100)}, stuck{nil, false, make(chan struct{}, 100)}
	r.stores[config.SecretsInSecretService], r.stores[config.SecretsInKeychain] = locked, hangs
	r.choose(config.SecretsInSecretService)
	for range 3 {
		began := time.Now()
		if live := r.Redact(t.Context(), alice); live.Scrubber() != nil || time.Since(began) > quick {
			t.Errorf("locked: %v", time.Since(began))
		}
	}
	timetest.Eventually(r.t, "it is in the log", func() bool { return r.log.count("locked") > 0 })
	if n := r.log.count("locked"); n != 1 || len(locked.asked) != 1 {
		t.Errorf("it is in the log %d times, and was asked %d times", n, len(locked.asked))
	}
	r.choose(config.SecretsInKeychain)
	r.Patience = brief
	began := time.Now()
	r.Redact(t.Context(), alice)
	if took := time.Since(began); took < brief || took > quick {
		t.Errorf("hangs: the first command waits %v", took)
	}
	r.Redact(t.Context(), alice)
	if n := r.log.count("the secret store does not answer"); n > 1 {
		t.Error("hangs: the second command waits too")
	}
	r.Patience = ever
	gone, leave := context.WithCancel(t.Context())
	leave()
	began = time.Now()
	r.Redact(gone, bob)
	if took := time.Since(began); took > quick {
		t.Errorf("who has left waits %v", took)
	}
	began = time.Now()
	r.Close() // does not wait for it
	if took := time.Since(began); took > quick {
		t.Errorf("the end waits %v", took)
	}
}

// A changed setting takes effect at once.
func TestStoreChanges(t *testing.T) {
	r := newRig(t, nil)
	r.stores[config.SecretsInKeychain] = agefile.New(config.Home(t.TempDir()), nil)
	r.set(key("", "TOKEN"), canary+"-file")
	r.set(secrets.Inference(), canary+"-inference")
	if v, err := r.InferenceKey(t.Context()); err != nil || v.Reveal() != canary+"-inference" {
		t.Errorf("the host's own key: %v", err)
	}
	live := r.Redact(t.Context(), alice)
	r.choose(config.SecretsInKeychain)
	if _, err := r.Get(t.Context(), bridge.Caller{Agent: alice, Name: "alice"}, "TOKEN"); !errors.Is(err, secrets.Missing) {
		t.Errorf("from the other store: %v", err)
	}
	if _, err := r.InferenceKey(t.Context()); !errors.Is(err, secrets.Missing) {
		t.Errorf("the host's own key from the other store: %v", err)
	}
	r.set(key("", "TOKEN"), canary+"-keychain")
	timetest.Eventually(r.t, "the other store's secrets are known", func() bool {
		r.Redact(t.Context(), alice)
		return text(live, canary+"-keychain "+canary+"-file") == "[REDACTED:TOKEN] [REDACTED:TOKEN]"
	})
}

// unreadable is a store that cannot read one secret.
type unreadable struct {
	secrets.Store
	name config.SecretName
}

func (u unreadable) Get(ctx context.Context, k secrets.Key) (secrets.Value, error) {
	if k.Name == u.name {
		return secrets.Value{}, fault.Newf(fault.Execution, "read secret", string(k.Name), "not UTF-8")
	}
	return u.Store.Get(ctx, k)
}

// One secret that cannot be read does not keep the others from being redacted.
func TestUnreadableSecret(t *testing.T) {
	r := newRig(t, nil)
	for _, name := range []config.SecretName{"A", "B", "C"} {
		v, _ := secrets.ParseValue(canary + "-" + string(name))
		if err := r.stores[config.SecretsInFile].Set(t.Context(), key("", name), v); err != nil {
			t.Fatal(err)
		}
	}
	r.stores[config.SecretsInFile] = unreadable{r.stores[config.SecretsInFile], "B"}
	live := r.Redact(t.Context(), alice)
	if got := text(live, canary+"-A "+canary+"-C"); got != "[REDACTED:A] [REDACTED:C]" {
		t.Error(got)
	}
	if r.log.count("cannot be read") != 1 {
		t.Errorf("the log: %s", &r.log.text)
	}
}
