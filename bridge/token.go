package bridge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"

	"osaurus-sandbox/config"
)

// Token is what a program proves with which agent it works for: 256 random
// bits, in 43 characters of base64url.
type Token string

const (
	tokenBytes = 32 // more than anybody can guess
	tokenSize  = 43 // of base64url without padding
)

// Holder is whose a token is.
type Holder struct {
	Agent config.AgentID
	Name  config.AgentName
	User  config.LinuxUser
	UID   uint32 // of the user in the guest
}

// Tokens are the tokens that count. They are in memory only, and only as
// digests. The methods may be called from any goroutine.
type Tokens struct {
	mu      sync.RWMutex
	passes  map[digest]pass
	current map[config.LinuxUser]digest
}

// pass is what a token stands for.
type pass struct {
	Holder
	life context.Context // ends when the token counts no more
	end  context.CancelFunc
}

// digest stands for a token: how long it takes to find one in a map tells
// nothing about the token.
type digest [sha256.Size]byte

// NewTokens returns no tokens.
func NewTokens() *Tokens {
	return &Tokens{passes: map[digest]pass{}, current: map[config.LinuxUser]digest{}}
}

// Mint returns a new token. The one that the user had before counts no more.
func (t *Tokens) Mint(h Holder) Token {
	var random [tokenBytes]byte
	_, _ = rand.Read(random[:]) // it does not fail: without randomness the program ends
	token := Token(base64.RawURLEncoding.EncodeToString(random[:]))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoke(h.User)
	d := digest(sha256.Sum256([]byte(token)))
	life, end := context.WithCancel(context.Background())
	t.passes[d], t.current[h.User] = pass{h, life, end}, d
	return token
}

// Find returns whose a token is, if it is shown by the user that it was made
// for. It takes the same time whatever is wrong with it.
func (t *Tokens) Find(shown string, uid uint32) (Holder, bool) {
	p, ok := t.find(shown, uid)
	return p.Holder, ok
}

func (t *Tokens) find(shown string, uid uint32) (pass, bool) {
	if len(shown) != tokenSize {
		shown = "" // hashing a long one would take long; nobody has an empty one
	}
	d := digest(sha256.Sum256([]byte(shown)))
	t.mu.RLock()
	p, found := t.passes[d]
	t.mu.RUnlock()
	if !found || subtle.ConstantTimeEq(int32(p.UID), int32(uid)) != 1 {
		return pass{}, false
	}
	return p, true
}

// Rename says what a user's agent is called from now on.
func (t *Tokens) Rename(user config.LinuxUser, name config.AgentName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d, ok := t.current[user]; ok {
		p := t.passes[d]
		p.Name = name
		t.passes[d] = p
	}
}

// Revoke makes the user's token count no more. What was asked with it ends.
func (t *Tokens) Revoke(user config.LinuxUser) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoke(user)
}

func (t *Tokens) revoke(user config.LinuxUser) {
	if d, ok := t.current[user]; ok {
		t.passes[d].end()
		delete(t.passes, d)
		delete(t.current, user)
	}
}

// RevokeAll makes all tokens count no more: the guest that has them is gone.
func (t *Tokens) RevokeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.passes {
		p.end()
	}
	clear(t.passes)
	clear(t.current)
}
