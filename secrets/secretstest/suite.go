// Package secretstest has tests of the contract of secrets.Store.
//
// A store's own test calls Run with a function that opens the store. It tests its own failures
// (locked, absent, denied) with Refuses.
package secretstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// The ids of two agents, which differ in one digit.
const (
	Alice = config.AgentID("0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	Bob   = config.AgentID("0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4F")
)

// Canary is a value that no error may contain.
const Canary = "canary-9e10c2"

// atOnce is how many callers use a store concurrently.
const atOnce = 8

// Run tests a store. The first call of open returns an empty store; later calls open it again,
// like another program.
func Run(t *testing.T, open func(*testing.T) secrets.Store) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, func(*testing.T) secrets.Store)
	}{
		{"Missing", missing},
		{"Keep", keep},
		{"Values", values},
		{"Apart", apart},
		{"List", list},
		{"OddKeys", oddKeys},
		{"AtOnce", allAtOnce},
		{"Ended", ended},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.test(t, open)
			empty(t, open(t))
		})
	}
}

// Value returns a valid value.
func Value(t testing.TB, text string) secrets.Value {
	t.Helper()
	v, err := secrets.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Refuses calls every method with the key k. All must fail with the reason, with advice, and
// without the value.
func Refuses(t *testing.T, s secrets.Store, k secrets.Key, reason secrets.Reason) {
	t.Helper()
	ctx := t.Context()
	_, getErr := s.Get(ctx, k)
	_, listErr := s.List(ctx, k.Agent)
	_, checkErr := s.Check(ctx)
	for what, err := range map[string]error{
		"Get": getErr, "Set": s.Set(ctx, k, Value(t, Canary)), "Delete": s.Delete(ctx, k), "List": listErr, "Check": checkErr,
	} {
		if !errors.Is(err, reason) || fault.KindOf(err) != reason.Kind() || fault.AdviceOf(err) == "" {
			t.Errorf("%s = %v (%s, advice %q), want that %v", what, err, fault.KindOf(err), fault.AdviceOf(err), reason)
		}
		Silent(t, what, err)
	}
}

// Silent fails the test if an error contains the Canary.
func Silent(t testing.TB, what string, err error) {
	t.Helper()
	j, _ := json.Marshal(err)
	if text := fmt.Sprintf("%v %+v %#v %s %s", err, err, err, j, fault.AdviceOf(err)); strings.Contains(text, Canary) {
		t.Errorf("%s tells the value: %s", what, text)
	}
}

func own(agent config.AgentID, name config.SecretName) secrets.Key {
	return secrets.Key{Agent: agent, Name: name}
}

func of(agent config.AgentID, plugin config.PluginID, name config.SecretName) secrets.Key {
	return secrets.Key{Agent: agent, Plugin: plugin, Name: name}
}

func set(t *testing.T, s secrets.Store, k secrets.Key, text string) {
	t.Helper()
	if err := s.Set(t.Context(), k, Value(t, text)); err != nil {
		t.Fatalf("Set %v: %v", k, err)
	}
}

func want(t *testing.T, s secrets.Store, k secrets.Key, text string) {
	t.Helper()
	if v, err := s.Get(t.Context(), k); err != nil || v.Reveal() != text {
		t.Errorf("%v is %d bytes %.20q, %v; want %d bytes %.20q", k, len(v.Reveal()), v.Reveal(), err, len(text), text)
	}
}

func remove(t *testing.T, s secrets.Store, keys ...secrets.Key) {
	t.Helper()
	for _, k := range keys {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Errorf("Delete %v: %v", k, err)
		}
		if v, err := s.Get(t.Context(), k); !errors.Is(err, secrets.Missing) || v.Check() == nil {
			t.Errorf("deleted %v is there: %v", k, err)
		}
	}
}

func wantList(t *testing.T, s secrets.Store, agent config.AgentID, keys ...secrets.Key) {
	t.Helper()
	got, err := s.List(t.Context(), agent)
	if err != nil || !slices.Equal(got, keys) || got == nil {
		t.Errorf("%s has %v, %v; want %v", agent, got, err, keys)
	}
}

func empty(t *testing.T, s secrets.Store) {
	t.Helper()
	wantList(t, s, Alice)
	wantList(t, s, Bob)
}

func missing(t *testing.T, open func(*testing.T) secrets.Store) {
	s := open(t)
	for _, k := range []secrets.Key{own(Alice, "NONE"), of(Alice, "p", "NONE")} {
		_, err := s.Get(t.Context(), k)
		for what, err := range map[string]error{"Get": err, "Delete": s.Delete(t.Context(), k)} {
			if !errors.Is(err, secrets.Missing) || fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "NONE") || fault.AdviceOf(err) == "" {
				t.Errorf("%s %v: %v", what, k, err)
			}
		}
	}
	if how, err := s.Check(t.Context()); err != nil || how == "" {
		t.Errorf("Check() = %q, %v", how, err)
	}
}

func keep(t *testing.T, open func(*testing.T) secrets.Store) {
	k := own(Alice, "TOKEN")
	set(t, open(t), k, "first")
	want(t, open(t), k, "first")
	set(t, open(t), k, "second, which is longer")
	want(t, open(t), k, "second, which is longer")
	wantList(t, open(t), Alice, k)
	set(t, open(t), k, "3")
	want(t, open(t), k, "3")
	remove(t, open(t), k)
	if err := open(t).Set(t.Context(), k, secrets.Value{}); fault.KindOf(err) != fault.InvalidArgs || err == nil {
		t.Errorf("Set of no value: %v", err)
	}
}

// values checks that any value can be stored and read back.
func values(t *testing.T, open func(*testing.T) secrets.Store) {
	s, k := open(t), own(Alice, "VALUE")
	for _, text := range []string{
		"x", " leading and trailing ", "two\nlines\r\n", "pässwörd 🔑", `"quoted" $HOME \n %s`, "sixteen bytes...", strings.Repeat("x", secrets.MaxValueSize),
	} {
		set(t, s, k, text)
		want(t, s, k, text)
	}
	remove(t, s, k)
}

// apart checks that keys that differ in any part are different secrets.
func apart(t *testing.T, open func(*testing.T) secrets.Store) {
	s := open(t)
	keys := []secrets.Key{
		own(Alice, "A"), own(Alice, "AA"), own(Alice, "a"), own(Bob, "A"),
		of(Alice, "p", "A"), of(Alice, "p.q", "A"), of(Alice, "q", "A"), of(Bob, "p", "A"),
	}
	for i, k := range keys {
		set(t, s, k, fmt.Sprint("value ", i))
	}
	for i, k := range keys {
		want(t, s, k, fmt.Sprint("value ", i))
	}
	for i, k := range keys {
		remove(t, s, k)
		for j, other := range keys[i+1:] {
			want(t, s, other, fmt.Sprint("value ", i+1+j))
		}
	}
}

func list(t *testing.T, open func(*testing.T) secrets.Store) {
	s := open(t)
	keys := []secrets.Key{own(Alice, "A"), own(Alice, "B"), of(Alice, "p", "A"), of(Alice, "p", "Z"), of(Alice, "p.q", "A")}
	for _, k := range slices.Backward(keys) {
		set(t, s, k, "x")
	}
	set(t, s, own(Bob, "OTHER"), "x")
	wantList(t, s, Alice, keys...)
	wantList(t, open(t), Bob, own(Bob, "OTHER"))
	remove(t, s, append(keys, own(Bob, "OTHER"))...)
}

// oddKeys checks that incomplete keys are refused and change nothing.
func oddKeys(t *testing.T, open func(*testing.T) secrets.Store) {
	s, k := open(t), own(Alice, "KEPT")
	p := of(Alice, "p", "KEPT")
	set(t, s, k, "x")
	set(t, s, p, "x")
	for _, odd := range []secrets.Key{{}, {Agent: Alice}, {Name: "KEPT"}, {Plugin: "p", Name: "KEPT"}, {Agent: Alice, Plugin: "p"}, {Agent: Alice, Name: "KEPT.KEPT"}, {Agent: "*", Name: "KEPT"}} {
		_, err := s.Get(t.Context(), odd)
		for what, err := range map[string]error{"Get": err, "Set": s.Set(t.Context(), odd, Value(t, Canary)), "Delete": s.Delete(t.Context(), odd)} {
			if err == nil || fault.KindOf(err) != fault.InvalidArgs {
				t.Errorf("%s %#v: %v", what, odd, err)
			}
			Silent(t, what, err)
		}
	}
	for _, agent := range []config.AgentID{"", "*", "alice"} {
		if keys, err := s.List(t.Context(), agent); err == nil || fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("List %q: %v, %v", agent, keys, err)
		}
	}
	wantList(t, s, Alice, k, p)
	remove(t, s, k, p)
}

// allAtOnce checks that concurrent callers lose no changes.
func allAtOnce(t *testing.T, open func(*testing.T) secrets.Store) {
	shared := open(t)
	var all sync.WaitGroup
	var keys []secrets.Key
	for i := range atOnce {
		k := own(Alice, config.SecretName(fmt.Sprint("KEY_", i)))
		keys = append(keys, k)
		s := shared
		if i%2 == 0 {
			s = open(t)
		}
		all.Go(func() {
			for _, text := range []string{"first", string(k.Name)} {
				if err := s.Set(t.Context(), k, Value(t, text)); err != nil {
					t.Errorf("Set %v: %v", k, err)
				}
				want(t, s, k, text)
			}
		})
	}
	all.Wait()
	wantList(t, shared, Alice, keys...)
	for _, k := range keys {
		want(t, shared, k, string(k.Name))
	}
	remove(t, shared, keys...)
}

// ended checks that calls with an ended context fail and store nothing.
func ended(t *testing.T, open func(*testing.T) secrets.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, k := open(t), own(Alice, "LATE")
	_, getErr := s.Get(ctx, k)
	_, listErr := s.List(ctx, Alice)
	for what, err := range map[string]error{"Get": getErr, "Set": s.Set(ctx, k, Value(t, Canary)), "Delete": s.Delete(ctx, k), "List": listErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v", what, err)
		}
		Silent(t, what, err)
	}
}
