package agents_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

// holds returns the holder of a valid token.
func (w *world) holds(token string, uid uint32) (bridge.Holder, bool) {
	return w.tokens.Find(token, uid)
}

// void waits until a token is invalid.
func (w *world) void(token string, uid uint32) {
	w.t.Helper()
	w.until("the token is invalid", func() bool { _, ok := w.holds(token, uid); return !ok })
}

// A room keeps its agent's token until it is revoked.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.create("alice"), w.create("bob")
	w.must(w.exec("alice"))
	w.must(w.exec("bob"))
	first, his := w.backend.Guest().Token("agent-alice"), w.backend.Guest().Token("agent-bob")
	want := bridge.Holder{Agent: alice.ID, Name: "alice", User: "agent-alice", UID: alice.UID}
	if who, ok := w.holds(first, alice.UID); !ok || who != want {
		t.Errorf("alice's token is of %+v", who)
	}
	if _, ok := w.holds(first, bob.UID); ok || first == his {
		t.Error("bob may show alice's token")
	}
	_, err := w.Set(t.Context(), "alice", map[string]string{"network": "none"}, by)
	w.must(err)
	w.backend.Guest().Refuse(errors.New("busy"))
	if _, err := w.Set(t.Context(), "alice", map[string]string{"network": "open"}, by); err == nil {
		t.Error("a guest that refuses was not heard")
	}
	w.backend.Guest().Refuse(nil)
	w.must(w.exec("alice"))
	if asked := w.backend.Guest().Asked(); !slices.Equal(asked, []string{"ensure agent-alice", "ensure agent-bob", "ensure agent-alice", "ensure agent-alice", "ensure agent-alice"}) {
		t.Errorf("%v", asked)
	}
	if now := w.backend.Guest().Token("agent-alice"); now != first {
		t.Error("what ran in the room had its token taken away")
	}
	_, err = w.Rename(t.Context(), "alice", "alicia", by)
	w.must(err)
	if who, _ := w.holds(first, alice.UID); who.Name != "alicia" || who.Agent != alice.ID {
		t.Errorf("after the agent was renamed: %+v", who)
	}
}

func TestTokensEndWithReset(t *testing.T) {
	w := newWorld(t)
	alice := w.create("alice")
	w.must(w.exec("alice"))
	first := w.backend.Guest().Token("agent-alice")
	w.backend.Guest().Refuse(fault.New(fault.Execution, "reset", "", nil))
	if w.Reset(t.Context(), "alice", by) == nil {
		t.Error("a guest that refuses was not heard")
	}
	if _, ok := w.holds(first, alice.UID); ok {
		t.Error("a token outlived its agent's reset, which failed")
	}
	w.backend.Guest().Refuse(nil)
	w.must(w.Reset(t.Context(), "alice", by))
	w.must(w.exec("alice"))
	second := w.backend.Guest().Token("agent-alice")
	if _, ok := w.holds(second, alice.UID); !ok || second == first {
		t.Error("the room that was made anew has no token of its own")
	}
}

func TestTokensEndWithTheAgent(t *testing.T) {
	w := newWorld(t)
	alice := w.create("alice")
	w.must(w.exec("alice"))
	first := w.backend.Guest().Token("agent-alice")
	w.backend.Guest().Refuse(errors.New("silent")) // the guest does not answer
	_, err := w.Delete(t.Context(), "alice", false, by)
	w.must(err)
	if _, ok := w.holds(first, alice.UID); ok {
		t.Error("a token outlived its agent")
	}
	w.backend.Guest().Refuse(nil)
	again := w.create("alice")
	w.must(w.exec("alice"))
	second := w.backend.Guest().Token("agent-alice")
	if who, ok := w.holds(second, again.UID); !ok || who.Agent != again.ID {
		t.Errorf("the next agent of the name has the token of %+v", who)
	}
}

// Tokens become invalid when the guest ends, in any way. The next guest gets valid ones.
func TestTokensEndWithTheGuest(t *testing.T) {
	for name, end := range map[string]func(*world) error{
		"stopped":   func(w *world) error { return w.machine.Stop(t.Context(), by) },
		"restarted": func(w *world) error { return w.machine.Restart(t.Context(), by) },
		"dead":      func(w *world) error { return w.backend.Guest().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			alice, bob := w.create("alice"), w.create("bob")
			w.must(w.exec("alice"))
			w.must(w.exec("bob"))
			hers, his := w.backend.Guest().Token("agent-alice"), w.backend.Guest().Token("agent-bob")
			before := w.backend.Guest()
			w.must(end(w))
			w.void(hers, alice.UID)
			w.void(his, bob.UID)
			for w.backend.Guest() == before { // who died is started again
				if err := w.exec("alice"); err != nil {
					time.Sleep(time.Millisecond)
				}
			}
			w.must(w.exec("alice"))
			now := w.backend.Guest().Token("agent-alice")
			if _, ok := w.holds(now, alice.UID); !ok || now == hers {
				t.Error("alice has no token in the next boot")
			}
		})
	}
}
