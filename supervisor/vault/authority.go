package vault

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/secrets"
)

// authorityLimit is how long the store may take with the authority's key. It may ask a person to
// unlock it, who has two minutes.
const authorityLimit = 3 * time.Minute

// authority is the gateway's certificate authority, with what makes rooms trust it.
type authority struct {
	*intercept.Authority
	trust *engine.Trust
}

// openAuthority returns the gateway's certificate authority. The first call makes it. With
// quiet, a locked store is an error instead of a dialog.
func (v *Vault) openAuthority(ctx context.Context, quiet bool) (*intercept.Authority, error) {
	v.opening.Lock()
	defer v.opening.Unlock()
	if a := v.authority.Load(); a != nil {
		return a.Authority, nil
	}
	ctx, cancel := context.WithTimeout(ctx, authorityLimit)
	defer cancel()
	if quiet {
		if _, err := v.open().Check(ctx); err != nil {
			return nil, err
		}
	}
	a, err := intercept.OpenAuthority(authorityStore{ctx, v.open()})
	if err != nil {
		return nil, err
	}
	v.authority.Store(&authority{a, &engine.Trust{Certificate: string(a.PEM()), Environment: intercept.Environment(intercept.SystemBundle)}})
	return a, nil
}

// Trust returns what makes rooms trust the gateway, or nil as long as no TLS is opened.
func (v *Vault) Trust() *engine.Trust {
	if a := v.authority.Load(); a != nil {
		return a.trust
	}
	return nil
}

// Prepare opens the authority before a room is used, if rules open TLS or secrets are bound. It waits
// up to Patience. After a failure it tries again a minute later.
func (v *Vault) Prepare(ctx context.Context, rules bool) {
	if v.authority.Load() != nil || !rules && !v.Bindings.any() {
		return
	}
	v.mu.Lock()
	if v.life.Err() == nil && time.Since(v.prepared) > fresh {
		done := make(chan struct{})
		v.prepared, v.preparing = time.Now(), done
		v.work.Go(func() {
			defer close(done)
			if _, err := v.openAuthority(v.life, true); err != nil && v.life.Err() == nil {
				v.Log.Warn("TLS cannot be opened for bound secrets and rules: the key of the gateway's certificates cannot be read", "error", err)
			}
		})
	}
	done, patience := v.preparing, time.Until(v.prepared.Add(v.Patience))
	v.mu.Unlock()
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-done: // nil at the end of the vault's life
	case <-over.C:
	case <-ctx.Done():
	}
}

// Opens implements network.Options.Opens. The name is that of the subject's agent.
func (v *Vault) Opens(s network.Subject, name config.AgentName, host string, o *intercept.Options) bool {
	who := bridge.Caller{Agent: s.Agent, Name: name, Plugin: s.Plugin}
	bound := v.boundTo(who, host)
	if o == nil {
		return bound
	}
	o.Agent = name
	o.Credentials, o.Foreign = v.credentials(who, host)
	o.Redact = func(from io.ReadCloser) io.ReadCloser { return v.filter(s.Agent, from) }
	if !o.TLS {
		return bound
	}
	var err error
	if o.Authority, err = v.openAuthority(v.life, true); err != nil { // then Serve fails
		v.Log.Warn("a connection cannot be opened: the key of the gateway's certificates cannot be read", "host", host, "error", err)
	}
	return bound
}

// authorityStore keeps the authority's key in the secret store.
type authorityStore struct {
	ctx   context.Context
	store secrets.Store
}

// Load implements intercept.Store.
func (s authorityStore) Load() ([]byte, error) {
	value, err := s.store.Get(s.ctx, secrets.Authority())
	if errors.Is(err, secrets.Missing) {
		return nil, fs.ErrNotExist
	}
	return []byte(value.Reveal()), err
}

// Save implements intercept.Store.
func (s authorityStore) Save(text []byte) error {
	value, err := secrets.ParseValue(string(text))
	if err != nil {
		return err
	}
	return s.store.Set(s.ctx, secrets.Authority(), value)
}
