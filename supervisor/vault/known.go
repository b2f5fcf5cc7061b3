package vault

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/redact"
)

const (
	// lookPatience is how long an agent's first command waits for its secrets. It then
	// runs without redaction: a keyring that hangs or is locked must not stop work.
	lookPatience = 2 * time.Second
	// lookLimit is how long a store may take to list them.
	lookLimit = 30 * time.Second
	// fresh is how long the values are used before the store is asked again, for changes by other
	// programs. Changes through the vault apply at once.
	fresh = time.Minute
	// maxFormer is how many replaced or deleted values of an agent stay redacted, and maxSecrets bounds its
	// secrets. Together they fill the redactor.
	maxFormer  = 16
	maxSecrets = redact.MaxSecrets - maxFormer
)

// known holds the values of an agent's secrets that are redacted. Vault.mu guards all but live.
type known struct {
	live    redact.Live
	values  map[secrets.Key]secrets.Value // at most maxSecrets
	former  []redact.Secret               // values that were replaced or deleted, oldest first
	changes int                           // number of changes of values
	asked   time.Time                     // when the store was asked last
	looking chan struct{}                 // closed when the store answers; nil if it is not being asked
	first   bool                          // it is asked for the first time
	trouble string                        // last error in the log
}

// Redact returns what redacts an agent's output, including secrets that it gets later.
// The first call waits for the store, up to Patience.
func (v *Vault) Redact(ctx context.Context, agent config.AgentID) *redact.Live {
	v.open()
	k, looking, patience := v.look(agent)
	if patience > 0 {
		over := time.NewTimer(patience)
		defer over.Stop()
		select {
		case <-looking:
		case <-over.C:
			v.Log.Warn("an agent's output is not redacted yet: the secret store does not answer", "agent", agent)
		case <-ctx.Done():
		}
	}
	return &k.live
}

// Redacted returns what redacts the agent's secrets that are known now.
func (v *Vault) Redacted(agent config.AgentID) *redact.Scrubber {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.of(agent).live.Scrubber()
}

// Clean removes the agent's secrets from a text: see services.Clean.
func (v *Vault) Clean(ctx context.Context, agent config.AgentID, text string) string {
	return v.Redact(ctx, agent).Scrubber().Text(text)
}

// look reads the store in the background if that is due, and returns how long the caller
// should wait: only for the first read, until Patience after its start.
func (v *Vault) look(agent config.AgentID) (k *known, looking <-chan struct{}, patience time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k = v.of(agent)
	if k.looking == nil && time.Since(k.asked) > fresh && v.life.Err() == nil {
		done := make(chan struct{})
		k.first = k.asked.IsZero()
		k.looking, k.asked = done, time.Now()
		v.work.Go(func() {
			defer close(done)
			v.ask(agent, k)
		})
	}
	if k.looking != nil && k.first {
		patience = time.Until(k.asked.Add(v.Patience))
	}
	return k, k.looking, patience
}

// of returns what is known of an agent. The caller holds mu.
func (v *Vault) of(agent config.AgentID) *known {
	if v.known[agent] == nil {
		v.known[agent] = &known{values: map[secrets.Key]secrets.Value{}}
	}
	return v.known[agent]
}

// ask reads an agent's secrets from the store.
func (v *Vault) ask(agent config.AgentID, k *known) {
	ctx, cancel := context.WithTimeout(v.life, lookLimit)
	defer cancel()
	for {
		v.mu.Lock()
		before := k.changes
		v.mu.Unlock()
		values, err := v.read(ctx, agent)
		v.mu.Lock()
		if err == nil && before != k.changes {
			v.mu.Unlock()
			continue // somebody set one meanwhile
		}
		k.looking = nil
		trouble := ""
		if err != nil {
			trouble = err.Error()
		} else {
			for key := range k.values {
				k.retire(key, values[key])
			}
			k.values = values
			k.live.Set(k.scrubber())
		}
		said := k.trouble
		k.trouble = trouble
		v.mu.Unlock()
		if trouble != "" && trouble != said && v.life.Err() == nil {
			v.Log.Warn("an agent's output is not redacted: its secrets cannot be read", "agent", agent, "error", trouble)
		}
		return
	}
}

// read reads up to maxSecrets of an agent's secrets. A store that would show a dialog is an error.
func (v *Vault) read(ctx context.Context, agent config.AgentID) (map[secrets.Key]secrets.Value, error) {
	keys, err := v.Names(ctx, agent)
	if err != nil {
		return nil, err
	}
	values := map[secrets.Key]secrets.Value{}
	for _, key := range keys[:min(len(keys), maxSecrets)] {
		value, err := v.open().Get(ctx, key)
		switch kind := fault.KindOf(err); {
		case err == nil:
			values[key] = value
		case kind == fault.Unavailable, kind == fault.Timeout:
			return nil, err // of the store, not of this secret
		case !errors.Is(err, secrets.Missing):
			v.Log.Warn("a secret cannot be read, so it is not redacted", "agent", agent, "secret", key.Name, "error", err)
		}
	}
	if n := len(keys); n > maxSecrets { // another program has added some
		v.Log.Warn("an agent has too many secrets: only the first ones are redacted", "agent", agent, "has", n, "most", maxSecrets)
	}
	return values, nil
}

// scrubber redacts the agent's values, and those that were replaced or deleted. The caller holds Vault.mu.
func (k *known) scrubber() *redact.Scrubber {
	var list []redact.Secret
	for _, key := range slices.SortedFunc(maps.Keys(k.values), secrets.Key.Compare) {
		list = append(list, redact.Secret{Name: key.Name, Value: k.values[key]})
	}
	return redact.New(append(list, k.former...))
}

// retire keeps a value redacted that is about to be replaced, or deleted if the new value is zero. Programs that
// got it may write it for as long as they run, which the vault cannot know, so it is kept until the daemon or the
// agent ends. The caller holds Vault.mu.
func (k *known) retire(key secrets.Key, by secrets.Value) {
	was, there := k.values[key]
	if !there || was.Reveal() == by.Reveal() {
		return
	}
	same := func(s redact.Secret) bool { return s.Value.Reveal() == was.Reveal() }
	k.former = append(slices.DeleteFunc(k.former, same), redact.Secret{Name: key.Name, Value: was})
	k.former = k.former[max(0, len(k.former)-maxFormer):]
}

// learn makes a value known to the redactor, so that a program may get it. It fails beyond maxSecrets, since the value
// would not be redacted.
func (v *Vault) learn(key secrets.Key, value secrets.Value) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.of(key.Agent)
	was, there := k.values[key]
	switch {
	case there && was.Reveal() == value.Reveal():
		return nil
	case !there && len(k.values) >= maxSecrets:
		return tooMany("read secret", key)
	}
	k.retire(key, value)
	k.values[key] = value
	k.changed()
	return nil
}

func tooMany(op string, key secrets.Key) error {
	return fault.Newf(fault.Rejected, op, string(key.Name), "the agent has %d other secrets, and no more can be redacted", maxSecrets).
		Advise("A person can delete some, or give the work to another agent: osaurus-sandbox secret list AGENT")
}

// unlearn forgets a deleted value, which stays redacted.
func (v *Vault) unlearn(key secrets.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.of(key.Agent)
	k.retire(key, secrets.Value{})
	delete(k.values, key)
	k.changed()
}

// changed redacts by the values that are known now. The caller holds Vault.mu.
func (k *known) changed() {
	k.changes++
	k.live.Set(k.scrubber())
}

// Forget drops what is known of a deleted agent.
func (v *Vault) Forget(agent config.AgentID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.known, agent)
}
