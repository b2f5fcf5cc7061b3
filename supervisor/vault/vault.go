// Package vault gives programs their agents' secrets: it opens the store that the settings name, audits reads, and redacts the values in output.
package vault

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/stores"
	"osaurus-sandbox/supervisor/audit"
)

const (
	// bridgeClient is the audit's name for programs in the guest.
	bridgeClient = "bridge"
	// pluginClient is the audit's name for secrets in the environment of plugins.
	pluginClient = "plugin"
)

// Options configure a Vault.
type Options struct {
	Home config.Home
	// Which returns the store that the settings name.
	Which func() config.SecretStore
	// Declared returns the secrets that a plugin declares, if the agent has it. It may be nil.
	Declared func(agent config.AgentID, plugin config.PluginID) (names []config.SecretName, installed bool)
	// Bindings are the secrets that are bound to hosts.
	Bindings *Bindings
	Audit    *audit.Log
	Log      *slog.Logger
	// Open opens a store. The default is stores.Open without a passphrase prompt.
	Open func(config.SecretStore) secrets.Store
	// Patience is how long an agent's first command waits for its secrets. The default
	// is lookPatience.
	Patience time.Duration
}

// Vault holds the secrets of a home's agents. Its methods may be called from any
// goroutine; their errors are *fault.Error.
type Vault struct {
	Options
	life  context.Context // ends with Close
	close context.CancelFunc
	work  sync.WaitGroup

	setting   queue.Queues[config.AgentID] // for setting an agent's secrets
	opening   sync.Mutex                   // of the authority
	authority atomic.Pointer[authority]

	mu    sync.Mutex // held for moments only
	which config.SecretStore
	store secrets.Store
	known map[config.AgentID]*known
	// prepared is when the authority was last opened in the background, and preparing is closed
	// when that ends.
	prepared  time.Time
	preparing chan struct{}
}

var _ bridge.Secrets = (*Vault)(nil)

// New returns the vault of a home.
func New(o Options) *Vault {
	if o.Open == nil {
		o.Open = func(which config.SecretStore) secrets.Store { return stores.Open(which, o.Home, nil) }
	}
	o.Patience = cmp.Or(o.Patience, lookPatience)
	v := &Vault{Options: o, known: map[config.AgentID]*known{}}
	v.life, v.close = context.WithCancel(context.Background())
	return v
}

// Close ends background reads of the store.
func (v *Vault) Close() {
	v.mu.Lock()
	v.close() // and nothing new begins
	v.mu.Unlock()
	v.work.Wait()
}

// open returns the store that the settings name. If that has changed, all secrets are
// read again.
func (v *Vault) open() secrets.Store {
	which := v.Which()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.store == nil || v.which != which {
		v.store, v.which = v.Open(which), which
		for _, k := range v.known {
			k.asked = time.Time{}
		}
	}
	return v.store
}

// Get implements bridge.Secrets. It fails if the read cannot be audited.
func (v *Vault) Get(ctx context.Context, who bridge.Caller, name config.SecretName) (secrets.Value, error) {
	return v.lend(ctx, who, name, bridgeClient)
}

// InferenceKey returns the key for the inference endpoint. No agent reads it, so it is not
// audited.
func (v *Vault) InferenceKey(ctx context.Context) (secrets.Value, error) {
	return v.open().Get(ctx, secrets.Inference())
}

// Environment returns the secrets that a plugin declares, as far as they exist, for a
// program of it: NAME=value.
func (v *Vault) Environment(ctx context.Context, who bridge.Caller, names []config.SecretName) ([]string, error) {
	return v.environment(ctx, who, names, pluginClient, true)
}

// Lend returns secrets of an agent for a command that the client runs: NAME=value. A
// missing one is fault.NotFound, since the client named it.
func (v *Vault) Lend(ctx context.Context, who bridge.Caller, names []config.SecretName, client string) ([]string, error) {
	return v.environment(ctx, who, names, client, false)
}

func (v *Vault) environment(ctx context.Context, who bridge.Caller, names []config.SecretName, client string, optional bool) (list []string, _ error) {
	for _, name := range names {
		value, err := v.lend(ctx, who, name, client)
		switch {
		case err == nil:
			list = append(list, string(name)+"="+value.Reveal())
		case !optional || fault.KindOf(err) != fault.NotFound:
			return nil, err
		}
	}
	return list, nil
}

// lend gives a program a secret, or the placeholder of one that is bound to hosts.
func (v *Vault) lend(ctx context.Context, who bridge.Caller, name config.SecretName, client string) (secrets.Value, error) {
	var key secrets.Key
	var value secrets.Value
	err := v.declares(who, name)
	told := err
	if err == nil {
		key, value, err = v.find(ctx, who, name)
		told = forProgram(name, err)
	}
	if to, bound := v.Bindings.find(key); bound && err == nil {
		value, err = secrets.ParseValue(to.Placeholder)
		told = err
	} else if err == nil {
		err = v.learn(key, value)
		told = err
	}
	entry := audit.Entry{UID: os.Getuid(), Agent: who.Name, Client: client, Action: "secret.read", Subject: subject(who.Plugin, name)}
	if _, failed := v.Audit.Record(ctx, entry.Of(err)); failed != nil && told == nil {
		told = fault.New(fault.Unavailable, "read secret", string(name), failed)
	}
	if told != nil {
		return secrets.Value{}, told
	}
	return value, nil
}

// forProgram hides from programs what is wrong with the store and where it is. The audit
// has the details.
func forProgram(name config.SecretName, err error) error {
	const op = "read secret"
	if err == nil {
		return nil
	}
	if errors.Is(err, secrets.Missing) {
		return fault.New(fault.NotFound, op, string(name), secrets.Missing).Advise("A person sets it: osaurus-sandbox secret set AGENT " + string(name))
	}
	kind := fault.KindOf(err)
	if kind != fault.UserDenied && kind != fault.Timeout {
		kind = fault.Unavailable
	}
	return fault.Newf(kind, op, string(name), "the host cannot read its secrets").Advise("A person can see why: osaurus-sandbox doctor")
}

// subject names a secret as its owner calls it.
func subject(plugin config.PluginID, name config.SecretName) string {
	if plugin == "" {
		return string(name)
	}
	return string(name) + " for plugin " + string(plugin)
}

// find looks up a secret of the plugin, and then of the agent.
func (v *Vault) find(ctx context.Context, who bridge.Caller, name config.SecretName) (secrets.Key, secrets.Value, error) {
	own := secrets.Key{Agent: who.Agent, Name: name}
	store := v.open()
	if who.Plugin != "" {
		of := secrets.Key{Agent: who.Agent, Plugin: who.Plugin, Name: name}
		if value, err := store.Get(ctx, of); !errors.Is(err, secrets.Missing) {
			return of, value, err
		}
	}
	value, err := store.Get(ctx, own)
	return own, value, err
}

// declares returns an error if an installed plugin does not declare the secret.
func (v *Vault) declares(who bridge.Caller, name config.SecretName) error {
	if v.Declared == nil || who.Plugin == "" {
		return nil
	}
	if names, installed := v.Declared(who.Agent, who.Plugin); !installed || slices.Contains(names, name) {
		return nil
	}
	return fault.New(fault.Rejected, "read secret", string(name), errors.New("the plugin "+string(who.Plugin)+" does not declare it")).
		Advise(`Add it to "secrets" in the plugin's recipe.`)
}

// Set stores a secret. One that is bound to hosts stays bound.
func (v *Vault) Set(ctx context.Context, k secrets.Key, value secrets.Value) error {
	return v.set(ctx, k, value, func() error { return nil })
}

// set stores a secret after prepare has succeeded. It fails for a secret that would not be redacted.
func (v *Vault) set(ctx context.Context, k secrets.Key, value secrets.Value, prepare func() error) error {
	const op = "set secret"
	give, err := v.setting.Take(ctx, k.Agent, nil)
	if err != nil {
		return fault.Wrap(op, string(k.Name), err)
	}
	defer give()
	keys, err := v.List(ctx, k.Agent)
	if err == nil && len(keys) >= maxSecrets && !slices.Contains(keys[:maxSecrets], k) {
		err = tooMany(op, k)
	}
	if err == nil {
		err = prepare()
	}
	if err == nil {
		err = v.open().Set(ctx, k, value)
	}
	if err != nil {
		return err
	}
	return v.learn(k, value)
}

// Delete deletes a secret.
func (v *Vault) Delete(ctx context.Context, k secrets.Key) error {
	if err := v.open().Delete(ctx, k); err != nil {
		return err
	}
	v.unlearn(k)
	return v.Bindings.remove(ctx, k)
}

// List returns the keys of an agent's secrets.
func (v *Vault) List(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	return v.open().List(ctx, agent)
}

// DeleteAll deletes all secrets of an agent and returns their number.
func (v *Vault) DeleteAll(ctx context.Context, agent config.AgentID) (int, error) {
	keys, err := v.List(ctx, agent)
	for n, k := range keys {
		if err := v.Delete(ctx, k); err != nil && !errors.Is(err, secrets.Missing) {
			return n, err
		}
	}
	return len(keys), err
}

// Copy gives an agent the secrets of another one. Those that are bound to hosts stay with their agent: a
// person has allowed that one to use them.
func (v *Vault) Copy(ctx context.Context, from, to config.AgentID) error {
	keys, err := v.List(ctx, from)
	for _, key := range keys {
		if _, bound := v.Bindings.find(key); bound {
			continue
		}
		value, err := v.open().Get(ctx, key)
		if err == nil {
			key.Agent = to
			err = v.Set(ctx, key, value)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// Names is List without a dialog: a locked store is an error.
func (v *Vault) Names(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	store := v.open()
	if _, err := store.Check(ctx); err != nil {
		return nil, err
	}
	return store.List(ctx, agent)
}
