package secrets_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

const canary = "canary-4b1d77"

func value(t *testing.T, text string) secrets.Value {
	t.Helper()
	v, err := secrets.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestS09ValueShowsNothing formats and marshals a value in every way.
func TestS09ValueShowsNothing(t *testing.T) {
	v := value(t, canary)
	type open struct{ V secrets.Value }
	type closed struct {
		v secrets.Value
		p *secrets.Value
		m map[string]secrets.Value
	}
	var out bytes.Buffer
	for _, it := range []any{v, &v, open{v}, &open{v}, closed{v, &v, map[string]secrets.Value{"k": v}}, []secrets.Value{v}, map[string]any{"k": v}, fmt.Errorf("of %v", v)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T", "%c", "%t"} {
			fmt.Fprintf(&out, verb+"\n", it)
		}
		fmt.Fprintln(&out, it)
		if j, err := json.Marshal(it); err == nil {
			out.Write(j)
		}
		if x, err := xml.Marshal(it); err == nil {
			out.Write(x)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("it", "value", it)
		slog.New(slog.NewTextHandler(&out, nil)).Info("it", "value", it)
		func() {
			defer func() { fmt.Fprintln(&out, recover()) }()
			panic(it)
		}()
	}
	for _, shown := range []string{canary, fmt.Sprintf("%x", canary), strings.Trim(fmt.Sprint([]byte(canary)), "[]")} {
		if strings.Contains(out.String(), shown) {
			t.Errorf("%q is shown in %s", shown, &out)
		}
	}
	if !strings.Contains(out.String(), secrets.Redacted) {
		t.Errorf("it is nowhere said that there is a secret: %s", &out)
	}
	if v.Reveal() != canary {
		t.Errorf("Reveal() = %q", v.Reveal())
	}
}

// panics makes this program panic while it holds a value.
const panics = "OSAURUS_TEST_PANIC"

func TestMain(m *testing.M) {
	if os.Getenv(panics) != "" {
		v, _ := secrets.ParseValue(strings.Join([]string{"canary", "4b1d77"}, "-"))
		holding(v, &v, struct{ v secrets.Value }{v})
	}
	os.Exit(m.Run())
}

func holding(v secrets.Value, p *secrets.Value, it any) {
	defer func() { panic(errors.Join(fmt.Errorf("with %v and %+v: %v", v, it, recover()), os.ErrInvalid)) }()
	panic(p)
}

// TestS09PanicShowsNothing checks a panic's output.
func TestS09PanicShowsNothing(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), panics+"=1", "GOTRACEBACK=system")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("holding")) || !bytes.Contains(out, []byte(secrets.Redacted)) {
		t.Errorf("%v: %s", err, out)
	}
	if bytes.Contains(out, []byte(canary)) {
		t.Errorf("it is shown in %s", out)
	}
}

func TestS07ParseValue(t *testing.T) {
	for _, good := range []string{"x", " ", "a\nb\n", "pässwörd 🔑", strings.Repeat("x", secrets.MaxValueSize)} {
		if v, err := secrets.ParseValue(good); err != nil || v.Reveal() != good || v.Check() != nil {
			t.Errorf("%.10q: %v", good, err)
		}
	}
	for _, bad := range []string{"", canary + "\x00", canary + "\xff", strings.Repeat(canary, secrets.MaxValueSize)} {
		_, err := secrets.ParseValue(bad)
		if fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" || strings.Contains(fmt.Sprintf("%v %#v", err, err), canary) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
	if (secrets.Value{}).Reveal() != "" || fault.KindOf(secrets.Value{}.Check()) != fault.InvalidArgs {
		t.Error("the zero value is a secret")
	}
}

const (
	alice = config.AgentID("0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
	bob   = config.AgentID("1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E")
)

func TestAccounts(t *testing.T) {
	for _, tc := range []struct {
		key              secrets.Key
		service, account string
	}{
		{secrets.Key{Agent: alice, Name: "TOKEN"}, "ai.osaurus.agent-secrets", string(alice) + ".TOKEN"},
		{secrets.Key{Agent: alice, Plugin: "tools", Name: "TOKEN"}, "ai.osaurus.tools", string(alice) + ".tools.TOKEN"},
		{secrets.Key{Agent: alice, Plugin: "a.b", Name: "_x"}, "ai.osaurus.tools", string(alice) + ".a.b._x"},
	} {
		if err := tc.key.Check(); err != nil || tc.key.Service() != tc.service || tc.key.Account() != tc.account {
			t.Errorf("%v is %s %s, %v", tc.key, tc.key.Service(), tc.key.Account(), err)
		}
		if back, ok := secrets.KeyOf(tc.service, tc.account); !ok || back != tc.key {
			t.Errorf("%s is read as %v, %v", tc.account, back, ok)
		}
	}
	for service, accounts := range map[string][]string{
		secrets.AgentService:  {"", ".", "TOKEN", string(alice), string(alice) + ".", string(alice) + ".a.B", strings.ToLower(string(alice)) + ".A"},
		secrets.PluginService: {"", ".", string(alice) + ".TOKEN", string(alice) + "..TOKEN", string(alice) + ".p.", string(alice) + ".a/b.C"},
		"com.example":         {string(alice) + ".TOKEN"},
	} {
		for _, account := range accounts {
			if k, ok := secrets.KeyOf(service, account); ok {
				t.Errorf("%s %q is taken for %v", service, account, k)
			}
		}
	}
}
