package vault

import (
	"context"
	"crypto/rand"
	"maps"
	"math/big"
	"strings"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/store"
)

const (
	// placeholderPrefix tells people what a placeholder is. Checks of tokens accept it, as they do
	// "ghp_".
	placeholderPrefix = "osr_"
	// placeholderLetters make 190 random bits, so that nobody guesses another's.
	placeholderLetters = 32
	// maxBindings bounds what is searched for in each request of an agent.
	maxBindings = 64
)

// Bindings remember which secrets are bound to hosts. Its methods may be called from any goroutine.
type Bindings struct {
	db *store.DB

	writing sync.Mutex // of set and remove
	mu      sync.Mutex // held for moments only
	all     map[config.AgentID]map[secrets.Key]secrets.Binding
}

// OpenBindings reads the bindings of a home.
func OpenBindings(ctx context.Context, db *store.DB) (*Bindings, error) {
	type bound struct {
		key secrets.Key
		to  secrets.Binding
	}
	list, err := store.Select(ctx, db, "read the bindings of secrets", func(row store.Row) (b bound, err error) {
		var hosts string
		err = row.Scan(&b.key.Agent, &b.key.Plugin, &b.key.Name, &hosts, &b.to.In, &b.to.Key, &b.to.Require, &b.to.Placeholder)
		b.to.Hosts = strings.Fields(hosts)
		return b, err
	}, "SELECT agent, plugin, name, hosts, place, key, require, placeholder FROM secret_bindings")
	if err != nil {
		return nil, err
	}
	b := &Bindings{db: db, all: map[config.AgentID]map[secrets.Key]secrets.Binding{}}
	for _, it := range list {
		b.put(it.key, it.to)
	}
	return b, nil
}

func (b *Bindings) put(k secrets.Key, to secrets.Binding) {
	if b.all[k.Agent] == nil {
		b.all[k.Agent] = map[secrets.Key]secrets.Binding{}
	}
	b.all[k.Agent][k] = to
}

// of returns the bindings of an agent's secrets.
func (b *Bindings) of(agent config.AgentID) map[secrets.Key]secrets.Binding {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.all[agent])
}

// find returns the binding of a secret.
func (b *Bindings) find(k secrets.Key) (to secrets.Binding, bound bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	to, bound = b.all[k.Agent][k]
	return to, bound
}

// any reports whether a secret is bound.
func (b *Bindings) any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all) > 0
}

// set binds a secret. One that was bound keeps its placeholder, which programs may have.
func (b *Bindings) set(ctx context.Context, k secrets.Key, to secrets.Binding) error {
	const op = "bind secret"
	b.writing.Lock()
	defer b.writing.Unlock()
	before, bound := b.find(k)
	if to.Placeholder = before.Placeholder; !bound {
		if len(b.of(k.Agent)) >= maxBindings {
			return fault.Newf(fault.Rejected, op, string(k.Name), "%d of the agent's secrets are bound already", maxBindings).Advise("Delete one that is not needed.")
		}
		to.Placeholder = newPlaceholder()
	}
	_, err := b.db.Exec(ctx, op, `INSERT INTO secret_bindings (agent, plugin, name, hosts, place, key, require, placeholder) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (agent, plugin, name) DO UPDATE SET hosts = excluded.hosts, place = excluded.place, key = excluded.key, require = excluded.require`,
		k.Agent, k.Plugin, k.Name, strings.Join(to.Hosts, " "), to.In, to.Key, to.Require, to.Placeholder)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(k, to)
	return nil
}

// remove removes the binding of a deleted secret.
func (b *Bindings) remove(ctx context.Context, k secrets.Key) error {
	if _, bound := b.find(k); !bound {
		return nil
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	if _, err := b.db.Exec(ctx, "remove the binding of a secret", "DELETE FROM secret_bindings WHERE agent = ? AND plugin = ? AND name = ?", k.Agent, k.Plugin, k.Name); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.all[k.Agent], k); len(b.all[k.Agent]) == 0 {
		delete(b.all, k.Agent)
	}
	return nil
}

// newPlaceholder returns a random placeholder. It says nothing about the secret.
func newPlaceholder() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	text := []byte(placeholderPrefix)
	for range placeholderLetters {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(letters)))) // crypto/rand does not fail
		text = append(text, letters[n.Int64()])
	}
	return string(text)
}
