package bridge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"

	"osaurus-sandbox/config"
)

// Token identifies an agent's programs: 256 random bits in 43 characters of base64url.
type Token string

const (
	tokenBytes = 32
	tokenSize  = 43 // in base64url without padding
)

// Holder is the agent that a token belongs to.
type Holder struct {
	Agent config.AgentID
	Name  config.AgentName
	User  config.LinuxUser
	UID   uint32 // of the user in the guest
}

// Tokens holds the digests of the valid tokens, in memory only. Its methods may be called from any goroutine.
type Tokens struct {
	mu      sync.RWMutex
	byHash  map[digest]grant
	current map[config.LinuxUser]digest
}

type grant struct {
	Holder
	valid  context.Context // done when the token is revoked
	revoke context.CancelFunc
}

// digest is a token's hash. Lookups by hash leak nothing about tokens through their timing.
type digest [sha256.Size]byte

// NewTokens returns an empty set.
func NewTokens() *Tokens {
	return &Tokens{byHash: map[digest]grant{}, current: map[config.LinuxUser]digest{}}
}

// Mint returns a new token and revokes the user's previous one.
func (t *Tokens) Mint(h Holder) Token {
	var random [tokenBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	token := Token(base64.RawURLEncoding.EncodeToString(random[:]))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoke(h.User)
	d := digest(sha256.Sum256([]byte(token)))
	valid, revoke := context.WithCancel(context.Background())
	t.byHash[d], t.current[h.User] = grant{h, valid, revoke}, d
	return token
}

// Find returns the holder of a token if the user it was made for presents it.
func (t *Tokens) Find(token string, uid uint32) (Holder, bool) {
	g, ok := t.find(token, uid)
	return g.Holder, ok
}

func (t *Tokens) find(token string, uid uint32) (grant, bool) {
	if len(token) != tokenSize {
		return grant{}, false // do not hash long texts
	}
	d := digest(sha256.Sum256([]byte(token)))
	t.mu.RLock()
	defer t.mu.RUnlock()
	g, found := t.byHash[d]
	if !found || g.UID != uid {
		return grant{}, false
	}
	return g, true
}

// Rename sets the name of a user's agent.
func (t *Tokens) Rename(user config.LinuxUser, name config.AgentName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d, ok := t.current[user]; ok {
		g := t.byHash[d]
		g.Name = name
		t.byHash[d] = g
	}
}

// Revoke revokes a user's token and cancels its requests.
func (t *Tokens) Revoke(user config.LinuxUser) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoke(user)
}

func (t *Tokens) revoke(user config.LinuxUser) {
	if d, ok := t.current[user]; ok {
		t.byHash[d].revoke()
		delete(t.byHash, d)
		delete(t.current, user)
	}
}

// RevokeAll revokes all tokens, for a guest that has stopped.
func (t *Tokens) RevokeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for user := range t.current {
		t.revoke(user)
	}
}
