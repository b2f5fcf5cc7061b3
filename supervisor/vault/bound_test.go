package vault_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/vault"
)

var placeholder = regexp.MustCompile(`^osr_[A-Za-z0-9]{32}$`)

// bind binds a secret to hosts, in the header Authorization unless the binding says otherwise, and
// returns its placeholder.
func (r *rig) bind(k secrets.Key, text string, to secrets.Binding) string {
	r.t.Helper()
	v, err := secrets.ParseValue(text)
	if err != nil {
		r.t.Fatal(err)
	}
	if to, err = to.Parse(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Bind(r.t.Context(), k, v, to); err != nil {
		r.t.Fatal(err)
	}
	got, ok := r.Binding(k)
	if !ok || !placeholder.MatchString(got.Placeholder) {
		r.t.Fatalf("%v is bound as %+v", k, got)
	}
	return got.Placeholder
}

// entries returns the audit as text.
func (r *rig) entries() (text string) {
	r.t.Helper()
	for e, err := range r.audit.List(r.t.Context(), audit.Filter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		text += fmt.Sprintf("%s %s %s %s %s: %s\n", e.Agent, e.Client, e.Action, e.Subject, e.Detail, e.Outcome)
	}
	return text
}

// Programs get the placeholder of a bound secret in every way, and never its value.
func TestBoundSecretIsAPlaceholder(t *testing.T) {
	r := newRig(t, declared{"strict": {"TOKEN"}})
	to := secrets.Binding{Hosts: []string{"api.example.org"}}
	token := r.bind(key("", "TOKEN"), canary+"-token", to)
	notes := r.bind(key("notes", "TOKEN"), canary+"-notes", to)
	own := bridge.Caller{Agent: alice, Name: "alice"}
	for plugin, want := range map[config.PluginID]string{"": token, "strict": token, "notes": notes} {
		who := own
		who.Plugin = plugin
		got, err := r.Get(t.Context(), who, "TOKEN")
		lent, failed := r.Lend(t.Context(), who, []config.SecretName{"TOKEN"}, "cli")
		declared, other := r.Environment(t.Context(), who, []config.SecretName{"TOKEN"})
		if all := fmt.Sprint(got.Reveal(), lent, declared); errors.Join(err, failed, other) != nil || all != fmt.Sprintf("%s[TOKEN=%s] [TOKEN=%s]", want, want, want) {
			t.Errorf("%q: %q, want %s: %v, %v, %v", plugin, all, want, err, failed, other)
		}
	}
	if token == notes {
		t.Error("two secrets have one placeholder")
	}

	// A new value changes nothing for programs, by whatever way it comes, and a new place neither.
	r.set(key("", "TOKEN"), canary+"-other")
	if again := r.bind(key("", "TOKEN"), canary+"-again", secrets.Binding{Hosts: []string{"b.example"}, Require: true}); again != token {
		t.Errorf("the placeholder was %s and is %s", token, again)
	}
	if got, err := r.Get(t.Context(), own, "TOKEN"); err != nil || got.Reveal() != token {
		t.Errorf("%q, %v", got.Reveal(), err)
	}

	// It is there after a restart, and gone with the secret.
	reopened, err := vault.OpenBindings(t.Context(), r.db)
	if err != nil {
		t.Fatal(err)
	}
	other := vault.New(vault.Options{Bindings: reopened})
	defer other.Close()
	if got, ok := other.Binding(key("", "TOKEN")); !ok || got.Placeholder != token || got.String() != "b.example (header Authorization, required)" {
		t.Errorf("%+v, %v", got, ok)
	}
	if err := r.Delete(t.Context(), key("", "TOKEN")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(t.Context(), own, "TOKEN"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if n, err := r.DeleteAll(t.Context(), alice); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if reopened, err = vault.OpenBindings(t.Context(), r.db); err != nil {
		t.Fatal(err)
	}
	left := vault.New(vault.Options{Bindings: reopened})
	defer left.Close()
	if _, ok := left.Binding(key("notes", "TOKEN")); ok {
		t.Error("the binding is still there")
	}
	r.set(key("", "TOKEN"), canary+"-free") // as any secret
	if got, err := r.Get(t.Context(), own, "TOKEN"); err != nil || got.Reveal() != canary+"-free" {
		t.Errorf("%q, %v", got.Reveal(), err)
	}

	if text := r.entries(); strings.Contains(text, canary) || !strings.Contains(text, "secret.read") {
		t.Errorf("the audit: %s", text)
	}
	for _, file := range []string{r.path, r.path + "-wal"} {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), canary) {
			t.Errorf("%s: %v, or it has a value", file, err)
		}
	}
}

// Plugins use what they can read. The placeholders of all others are foreign, everywhere.
func TestOpens(t *testing.T) {
	r := newRig(t, declared{"strict": {"TOKEN"}})
	for _, b := range []struct {
		key  secrets.Key
		host string
	}{{key("", "TOKEN"), "a.example"}, {key("", "OTHER"), "a.example"}, {key("notes", "NOTES"), "a.example"}, {key("", "ELSEWHERE"), "b.example"}} {
		r.bind(b.key, canary+"-value", secrets.Binding{Hosts: []string{b.host}})
	}
	for _, tc := range []struct {
		who     network.Subject
		host    string
		opened  bool
		here    int
		foreign int
	}{
		{network.Subject{Agent: alice}, "a.example", true, 3, 1},
		{network.Subject{Agent: alice}, "b.example", true, 1, 3},
		{network.Subject{Agent: alice}, "x.a.example", false, 0, 4},
		{network.Subject{Agent: alice, Plugin: "strict"}, "a.example", true, 1, 3},
		{network.Subject{Agent: alice, Plugin: "strict"}, "b.example", false, 0, 4},
		{network.Subject{Agent: alice, Plugin: "notes"}, "a.example", true, 3, 1},
		{network.Subject{Agent: bob}, "a.example", false, 0, 0},
		{network.Subject{}, "a.example", false, 0, 0},
	} {
		o := intercept.Options{TLS: true}
		opened := r.Opens(tc.who, "alice", tc.host, &o)
		if opened != tc.opened || r.Opens(tc.who, "", tc.host, nil) != tc.opened || len(o.Credentials) != tc.here || len(o.Foreign) != tc.foreign {
			t.Errorf("%v to %s: %v, %d here, %d foreign", tc.who, tc.host, opened, len(o.Credentials), len(o.Foreign))
		}
		if o.Authority == nil || o.Redact == nil || string(o.Authority.PEM()) != r.Trust().Certificate {
			t.Errorf("%v to %s: %+v", tc.who, tc.host, o)
		}
	}
}

// The authority is made with the first bound secret, and its key is in the secret store alone.
func TestAuthority(t *testing.T) {
	r := newRig(t, nil)
	r.set(key("", "TOKEN"), canary)
	r.Prepare(t.Context(), false)
	if r.Trust() != nil {
		t.Error("there is an authority though no secret is bound")
	}
	v, err := secrets.ParseValue(canary)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Bind(t.Context(), secrets.Key{Agent: secrets.Host, Name: "TOKEN"}, v, secrets.Binding{}); fault.KindOf(err) != fault.InvalidArgs || r.Trust() != nil {
		t.Errorf("a secret of the host: %v", err)
	}
	r.bind(key("", "TOKEN"), canary, secrets.Binding{Hosts: []string{"a.example"}})
	trust := r.Trust()
	if trust == nil || !strings.Contains(trust.Certificate, "CERTIFICATE") || strings.Contains(trust.Certificate, "PRIVATE KEY") || len(trust.Environment) < 5 {
		t.Fatalf("%+v", trust)
	}
	text, err := r.stores[config.SecretsInFile].Get(t.Context(), secrets.Authority())
	if err != nil || !strings.Contains(text.Reveal(), "PRIVATE KEY") {
		t.Error(err)
	}
	if got, err := r.Get(t.Context(), bridge.Caller{Agent: alice, Name: "alice"}, secrets.Authority().Name); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an agent reads the key: %q, %v", got.Reveal(), err)
	}
	bindings, err := vault.OpenBindings(t.Context(), r.db)
	if err != nil {
		t.Fatal(err)
	}
	next := r.Options
	next.Bindings = bindings
	again := vault.New(next) // as at the next start
	defer again.Close()
	again.Prepare(t.Context(), false)
	if got := again.Trust(); got == nil || got.Certificate != trust.Certificate {
		t.Errorf("after a restart: %+v", got)
	}
}
