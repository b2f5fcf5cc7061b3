package keychain

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/secretstest"
)

var token = secrets.Key{Agent: secretstest.Alice, Name: "TOKEN"}

// fake behaves like Apple's Keychain, where an empty name matches any name.
type fake struct {
	turn  sync.Mutex
	items map[[2]string][]byte
	fails status        // the result of every call, if not zero
	asks  chan struct{} // every call waits for it, if not nil
}

func (f *fake) begin() (func(), error) {
	if f.asks != nil {
		<-f.asks
	}
	f.turn.Lock()
	if f.fails != 0 {
		f.turn.Unlock()
		return nil, f.fails
	}
	return f.turn.Unlock, nil
}

func (f *fake) matching(service, account string) [][2]string {
	var found [][2]string
	for id := range f.items {
		if (service == "" || service == id[0]) && (account == "" || account == id[1]) {
			found = append(found, id)
		}
	}
	return found
}

func (f *fake) read(service, account string) ([]byte, error) {
	end, err := f.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	for _, id := range f.matching(service, account) {
		return f.items[id], nil
	}
	return nil, itemNotFound
}

func (f *fake) add(service, account, _ string, data []byte) error {
	end, err := f.begin()
	if err != nil {
		return err
	}
	defer end()
	if len(f.matching(service, account)) > 0 {
		return duplicateItem
	}
	f.items[[2]string{service, account}] = data
	return nil
}

func (f *fake) update(service, account string, data []byte) error {
	return f.change(service, account, func(id [2]string) { f.items[id] = data })
}

func (f *fake) delete(service, account string) error {
	return f.change(service, account, func(id [2]string) { delete(f.items, id) })
}

func (f *fake) change(service, account string, change func([2]string)) error {
	end, err := f.begin()
	if err != nil {
		return err
	}
	defer end()
	found := f.matching(service, account)
	if len(found) == 0 {
		return itemNotFound
	}
	for _, id := range found {
		change(id)
	}
	return nil
}

func (f *fake) accounts(service string) ([]string, error) {
	end, err := f.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	var accounts []string
	for _, id := range f.matching(service, "") {
		accounts = append(accounts, id[1])
	}
	if accounts == nil {
		return nil, itemNotFound
	}
	return accounts, nil
}

func newFake() *fake { return &fake{items: map[[2]string][]byte{}} }

func TestSuite(t *testing.T) {
	f := newFake()
	secretstest.Run(t, func(*testing.T) secrets.Store { return newStore(f) })
}

func TestNames(t *testing.T) {
	f := newFake()
	for _, k := range []secrets.Key{token, {Agent: secretstest.Alice, Plugin: "p", Name: "TOKEN"}} {
		if err := newStore(f).Set(t.Context(), k, secretstest.Value(t, "x")); err != nil {
			t.Fatal(err)
		}
	}
	got := slices.SortedFunc(maps.Keys(f.items), func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	if want := [][2]string{
		{"ai.osaurus.agent-secrets", string(secretstest.Alice) + ".TOKEN"},
		{"ai.osaurus.tools", string(secretstest.Alice) + ".p.TOKEN"},
	}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestStatuses(t *testing.T) {
	for s, reason := range map[status]secrets.Reason{
		interactionNotAllowed: secrets.Locked, interactionRequired: secrets.Locked,
		userCanceled: secrets.Denied, authFailed: secrets.Denied, noAccessForItem: secrets.Denied,
		notAvailable: secrets.Absent, noSuchKeychain: secrets.Absent, invalidKeychain: secrets.Absent, noDefaultKeychain: secrets.Absent,
	} {
		secretstest.Refuses(t, newStore(&fake{fails: s}), token, reason)
	}
	const parameter status = -50
	err := newStore(&fake{fails: parameter}).Set(t.Context(), token, secretstest.Value(t, secretstest.Canary))
	if fault.KindOf(err) != fault.Execution || !strings.Contains(err.Error(), "-50") || fault.AdviceOf(err) == "" {
		t.Error(err)
	}
	secretstest.Silent(t, "Set", err)
}

// TestElsewhere checks the errors without a Keychain.
func TestElsewhere(t *testing.T) {
	secretstest.Refuses(t, newStore(nil), token, secrets.Absent)
}

// racing makes another program add the item between our update and our add.
type racing struct{ *fake }

func (r racing) add(service, account, label string, data []byte) error {
	_ = r.fake.add(service, account, label, []byte("theirs"))
	return r.fake.add(service, account, label, data)
}

func TestAddedMeanwhile(t *testing.T) {
	s := newStore(racing{newFake()})
	if err := s.Set(t.Context(), token, secretstest.Value(t, "ours")); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(t.Context(), token); err != nil || v.Reveal() != "ours" {
		t.Errorf("%q, %v", v.Reveal(), err)
	}
}

// TestDialog checks that an open dialog blocks no caller, and that only one is shown.
func TestDialog(t *testing.T) {
	f := newFake()
	f.asks = make(chan struct{})
	s := newStore(f)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // while the first one is open
		_, err := s.Get(ctx, token)
		if !errors.Is(err, context.DeadlineExceeded) || fault.KindOf(err) != fault.Timeout || fault.AdviceOf(err) == "" {
			t.Error(err)
		}
		cancel()
	}
	f.asks <- struct{}{} // the dialog that is open
	select {
	case f.asks <- struct{}{}:
		t.Error("there was another")
	case <-time.After(50 * time.Millisecond):
	}
	close(f.asks)
	if _, err := s.Get(t.Context(), token); !errors.Is(err, secrets.Missing) {
		t.Errorf("after the answer: %v", err)
	}
}
