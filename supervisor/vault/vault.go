// Package vault is the way to agents' secrets in a home that runs: it opens the store that the settings name, notes who read what, and knows what must not be read in an agent's output.
package vault

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/stores"
	"osaurus-sandbox/supervisor/audit"
)

const (
	// bridgeClient is who reads secrets for programs in the guest, in the audit.
	bridgeClient = "bridge"
	// pluginClient is who gives plugins' programs the secrets that they declare.
	pluginClient = "plugin"
	// noteLimit is how long the audit may take over a read.
	noteLimit = 10 * time.Second
)

// Plugins know which secrets plugins declare.
type Plugins interface {
	// Declared are the secrets that a plugin declares, if the agent has it.
	Declared(agent config.AgentID, plugin config.PluginID) (names []config.SecretName, installed bool)
}

// Options are what a vault is made of.
type Options struct {
	Home config.Home
	// Which says which store the settings name by now.
	Which func() config.SecretStore
	// Plugins may be nil: then none is installed.
	Plugins Plugins
	Audit   *audit.Log
	Log     *slog.Logger
	// Open opens a store; nil is stores.Open, which asks nobody for a passphrase.
	Open func(config.SecretStore) secrets.Store
	// Patience is how long an agent's first command waits until its secrets are known;
	// zero is lookPatience.
	Patience time.Duration
}

// Vault has the secrets of a home's agents. Its methods may be called from any
// goroutine; their errors are *fault.Error.
type Vault struct {
	Options
	life  context.Context // ends with Close
	close context.CancelFunc
	work  sync.WaitGroup

	mu    sync.Mutex // held for moments only
	which config.SecretStore
	store secrets.Store
	known map[config.AgentID]*known
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

// Close ends what goes on by itself.
func (v *Vault) Close() {
	v.mu.Lock()
	v.close() // and nothing new begins
	v.mu.Unlock()
	v.work.Wait()
}

// open is the store that the settings name. With another one, nothing is known.
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

// Get implements bridge.Secrets. Nobody gets a value that the audit could not
// take note of.
func (v *Vault) Get(ctx context.Context, who bridge.Caller, name config.SecretName) (secrets.Value, error) {
	return v.lend(ctx, who, name, bridgeClient)
}

// InferenceKey is what this host shows to the endpoint for inference. No agent reads it,
// so the audit takes no note.
func (v *Vault) InferenceKey(ctx context.Context) (secrets.Value, error) {
	return v.open().Get(ctx, secrets.Inference())
}

// Environment is the values of secrets that a plugin declares, for a program of it: as
// NAME=value, of those that there are.
func (v *Vault) Environment(ctx context.Context, who bridge.Caller, names []config.SecretName) (list []string, _ error) {
	for _, name := range names {
		value, err := v.lend(ctx, who, name, pluginClient)
		switch {
		case err == nil:
			list = append(list, string(name)+"="+value.Reveal())
		case fault.KindOf(err) != fault.NotFound:
			return nil, err
		}
	}
	return list, nil
}

// Lend is the values of an agent's secrets for a command that somebody has it run: as
// NAME=value. One that is not there is fault.NotFound: who named it wants it.
func (v *Vault) Lend(ctx context.Context, who bridge.Caller, names []config.SecretName, client string) (list []string, _ error) {
	for _, name := range names {
		value, err := v.lend(ctx, who, name, client)
		if err != nil {
			return nil, err
		}
		list = append(list, string(name)+"="+value.Reveal())
	}
	return list, nil
}

// lend gives a program a secret.
func (v *Vault) lend(ctx context.Context, who bridge.Caller, name config.SecretName, client string) (secrets.Value, error) {
	var key secrets.Key
	var value secrets.Value
	err := v.declares(who, name)
	told := err
	if err == nil {
		key, value, err = v.find(ctx, who, name)
		told = forProgram(name, err)
	}
	if err == nil {
		err = v.learnLent(key, value)
		told = err
	}
	entry := audit.Entry{
		UID: os.Getuid(), Agent: who.Name, Client: client, Action: "secret.read", Subject: subject(who.Plugin, name), Outcome: audit.OutcomeOf(err),
	}
	if err != nil {
		entry.Detail = err.Error()
	}
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	if _, failed := v.Audit.Record(noting, entry); failed != nil && told == nil {
		told = fault.New(fault.Unavailable, "read secret", string(name), failed)
	}
	if told != nil {
		return secrets.Value{}, told
	}
	return value, nil
}

// forProgram is a store's error as a program may read it: what is wrong with the
// store, and where on this computer it is, is the user's, and in the audit.
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
	return fault.Newf(kind, op, string(name), "the host cannot read its secrets").Advise("A person sees why: osaurus-sandbox doctor")
}

// subject names a secret as its owner calls it.
func subject(plugin config.PluginID, name config.SecretName) string {
	if plugin == "" {
		return string(name)
	}
	return string(name) + " for plugin " + string(plugin)
}

// find looks in the plugin's secrets, and then in the agent's own.
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

// declares refuses a secret that an installed plugin does not declare.
func (v *Vault) declares(who bridge.Caller, name config.SecretName) error {
	if v.Plugins == nil || who.Plugin == "" {
		return nil
	}
	names, installed := v.Plugins.Declared(who.Agent, who.Plugin)
	if !installed {
		return nil
	}
	for _, declared := range names {
		if declared == name {
			return nil
		}
	}
	return fault.New(fault.Rejected, "read secret", string(name), errors.New("the plugin "+string(who.Plugin)+" does not declare it")).
		Advise(`Add it to "secrets" in the plugin's recipe.`)
}

// Set keeps a secret.
func (v *Vault) Set(ctx context.Context, k secrets.Key, value secrets.Value) error {
	if err := v.open().Set(ctx, k, value); err != nil {
		return err
	}
	v.learn(k, value)
	return nil
}

// Delete forgets a secret.
func (v *Vault) Delete(ctx context.Context, k secrets.Key) error {
	if err := v.open().Delete(ctx, k); err != nil {
		return err
	}
	v.unlearn(k)
	return nil
}

// List names an agent's secrets.
func (v *Vault) List(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	return v.open().List(ctx, agent)
}

// DeleteAll forgets all secrets of an agent, and says how many that were.
func (v *Vault) DeleteAll(ctx context.Context, agent config.AgentID) (int, error) {
	keys, err := v.List(ctx, agent)
	for n, k := range keys {
		if err := v.Delete(ctx, k); err != nil && !errors.Is(err, secrets.Missing) {
			return n, err
		}
	}
	return len(keys), err
}

// Names is List for who must not have anybody be asked for anything: a store
// that is locked is an error.
func (v *Vault) Names(ctx context.Context, agent config.AgentID) ([]secrets.Key, error) {
	store := v.open()
	if _, err := store.Check(ctx); err != nil {
		return nil, err
	}
	return store.List(ctx, agent)
}
