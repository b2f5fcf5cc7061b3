package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
)

// TestN09NetworkRuleNames is the table of exact semantics of names: case N09.
func TestN09NetworkRuleNames(t *testing.T) {
	for _, tc := range []struct{ text, want string }{ // want is canonical, or "!" and what the error says
		{"allow api.example.org", "allow api.example.org"},
		{"allow api.example.org.", "allow api.example.org"},
		{"allow API.Example.ORG:443", "allow api.example.org:443"},
		{"  deny\ttcp  api.example.org:443-443 ", "deny tcp api.example.org:443"},
		{"allow api.example.org:1-65535", "allow api.example.org:1-65535"},
		{"allow udp *.Example.org.:53", "allow udp *.example.org:53"},
		{"allow *", "allow *"},
		{"allow *:22", "allow *:22"},
		{"allow xn--bcher-kva.example", "allow xn--bcher-kva.example"},
		{"allow my_bucket.example.org", "allow my_bucket.example.org"},
		{"allow localhost", "allow localhost"},
		{"allow LOCALHOST.:8080", "allow localhost:8080"},
		{"allow com", "allow com"},
		{"allow co.uk", "allow co.uk"},
		{"allow *.corp", "allow *.corp"},
		{"allow @github", "allow @github"},
		{"allow @package-registries:443", "allow @package-registries:443"},
		{"allow 10.1.0.0/16", "allow 10.1.0.0/16"},
		{"allow 192.168.1.7", "allow 192.168.1.7"},
		{"allow 192.168.1.7/32:22", "allow 192.168.1.7:22"},
		{"allow 10.0.0.0/8:80-90", "allow 10.0.0.0/8:80-90"},
		{"allow 0.0.0.0/0", "allow 0.0.0.0/0"},
		{"allow 2001:DB8::1", "allow 2001:db8::1"},
		{"allow [2001:db8:0::1]:443", "allow [2001:db8::1]:443"},
		{"allow [2001:db8::1]", "allow 2001:db8::1"},
		{"allow [2001:db8::/32]:443", "allow [2001:db8::/32]:443"},
		{"allow 2001:db8::/32", "allow 2001:db8::/32"},
		{"allow ::1", "allow ::1"},

		{"allow a..b", "!not a host"},
		{"allow api.example.org..", "!not a host"},
		{"allow .", "!1 to 253"},
		{"allow -a.b", "!not a host"},
		{"allow a-.b", "!not a host"},
		{"allow a*.example.org", "!not a host"},
		{"allow *.*.example.org", "!not a host"},
		{"allow *example.org", "!not a host"},
		{"allow *.", "!1 to 253"},
		{"allow *.com", "!anybody can have a name in *.com"},
		{"allow *.CO.UK", "!*.co.uk"},
		{"allow *.github.io", "!*.github.io"},
		{"allow *.unknowntld", "!*.unknowntld"},
		{"allow *.127.1", "!a number"},
		{"allow *.localhost", "!localhost"},
		{"allow a.localhost", "!localhost"},
		{"allow \u0430pi.example.org", "!beyond ASCII"}, // a Cyrillic a
		{"allow bücher.example", "!beyond ASCII"},
		{"allow example。org", "!beyond ASCII"}, // an ideographic full stop
		{"allow \u212aelvin.example", "!beyond ASCII"},
		{"allow allowed@evil.example", "!without a user"},
		{"allow allowed:x@evil.example", "!not a port"},
		{"allow https://example.org", "!without https"},
		{"allow example.org/path", "!neither a host nor a network"},
		{"allow example.org:", "!not a port"},
		{"allow example.org:0", "!not a port"},
		{"allow example.org:65536", "!not a port"},
		{"allow example.org:+80", "!not a port"},
		{"allow example.org:080", "!not a port"},
		{"allow example.org:90-80", "!not a range"},
		{"allow example.org:80-", "!not a port"},
		{"allow 127.1", "!a number"},
		{"allow 2130706433", "!a number"},
		{"allow 0x7f.1", "!a number"},
		{"allow 0x7f000001", "!a number"},
		{"allow 0177.0.0.1", "!a number"},
		{"allow 1.2.3.256", "!a number"},
		{"allow 10.1.2.3/16", "!the network is 10.1.0.0/16"},
		{"allow ::ffff:10.0.0.1", "!as an IPv4 address"},
		{"allow ::ffff:10.0.0.0/104", "!as an IPv4 address"},
		{"allow fe80::1%eth0", "!neither a host nor a network"},
		{"allow [10.0.0.1]:80", "!brackets"},
		{"allow [2001:db8::1", "!brackets"},
		{"allow [2001:db8::1]443", "!brackets"},
		{"allow @", "!set"},
		{"allow @Git_Hub", "!set"},
		{"", "!allow"},
		{"allow", "!allow"},
		{"Allow example.org", "!allow"},
		{"allow tcp", "!host is missing"},
		{"allow icmp example.org", "!is not method="},
		{"allow a.b, deny c.d", "!no comma"},
		{"allow " + strings.Repeat("a", 64) + ".org", "!not a host"},
		{"allow " + strings.Repeat("a.", 126) + "org", "!1 to 253"},
		{"allow " + strings.Repeat("a", maxNetworkRule), "!at most"},
	} {
		checkRule(t, tc.text, tc.want)
	}
}

func TestNetworkRuleOptions(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"allow api.example.org method=post|GET|post path=/v1/*", "allow api.example.org method=GET|POST path=/v1/*"},
		{"allow api.example.org path=/ method=GET", "allow api.example.org method=GET path=/"},
		{"allow tcp api.example.org path=/*", "allow tcp api.example.org path=/*"},
		{"allow api.example.org path=/v1/", "allow api.example.org path=/v1/"},
		{"allow api.example.org until=2026-12-31", "allow api.example.org until=2026-12-31"},
		{"allow api.example.org until=2026-12-31 public", "allow api.example.org public until=2026-12-31"},
		{"allow api.example.org until=2027-01-01T00:00:00Z", "allow api.example.org until=2026-12-31"},
		{"allow api.example.org until=2026-12-31T18:00:00+02:00", "allow api.example.org until=2026-12-31T16:00:00Z"},
		{"allow api.example.org until=2026-12-31T18:00:00.9Z", "allow api.example.org until=2026-12-31T18:00:00Z"},

		{"allow api.example.org method=", "!HTTP method"},
		{"allow api.example.org method=G3T", "!HTTP method"},
		{"allow api.example.org method=GET method=PUT", "!twice"},
		{"allow udp api.example.org method=GET", "!not udp"},
		{"allow api.example.org path=v1", "!not a path"},
		{"allow api.example.org path=/a*", "!not a path"},
		{"allow api.example.org path=/*/a", "!not a path"},
		{"allow api.example.org path=/a?b=c", "!not a path"},
		{"allow api.example.org path=/%61", "!not a path"},
		{"allow api.example.org path=/a//b", `!empty part`},
		{"allow api.example.org path=/a//", `!empty part`},
		{"allow api.example.org path=//", `!empty part`},
		{"allow api.example.org path=/a/../b", `!".."`},
		{"allow api.example.org path=/..", `!".."`},
		{"allow api.example.org path=/./*", `!"."`},
		{"allow api.example.org path=/" + strings.Repeat("a", maxRulePath), "!not a path"},
		{"allow api.example.org until=tomorrow", "!neither a day nor a time"},
		{"allow api.example.org until=1999-01-01", "!year"},
		{"allow api.example.org until=9999-12-31", "!year"},
		{"allow api.example.org unti=2026-12-31", "!is not method="},
		{"allow api.example.org 443", "!is not method="},
	} {
		checkRule(t, tc.text, tc.want)
	}
	r, err := ParseNetworkRule("allow a.example until=2026-12-31")
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	if r.Expired(end.Add(-time.Nanosecond)) || !r.Expired(end) || (NetworkRule{}).Expired(end) {
		t.Error("a rule does not end with its last day")
	}
}

func checkRule(t *testing.T, text, want string) {
	t.Helper()
	r, err := ParseNetworkRule(text)
	if says, bad := strings.CutPrefix(want, "!"); bad {
		if err == nil || !strings.Contains(err.Error(), says) || fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
			t.Errorf("%q: %v, %v, want %q", text, r, err, says)
		}
		return
	}
	if err != nil || r.String() != want {
		t.Errorf("%q is %q, %v, want %q", text, r, err, want)
		return
	}
	if again, err := ParseNetworkRule(want); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%q became %+v, %v, was %+v", want, again, err, r)
	}
}

func FuzzNetworkRule(f *testing.F) {
	for _, seed := range []string{"allow tcp *.example.org:80-90 method=GET|PUT path=/v1/* until=2026-12-31", "deny [2001:db8::/32]:443", "allow 10.0.0.0/8", "allow @github until=2026-12-31T01:02:03-11:00", "allow [::]:1", "allow *:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseNetworkRule(text)
		if err != nil {
			if fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		set := 0
		for _, is := range []bool{r.Host != "", r.Set != "", r.Prefix.IsValid()} {
			if is {
				set++
			}
		}
		if again, err := ParseNetworkRule(r.String()); err != nil || !reflect.DeepEqual(again, r) || set != 1 || strings.Contains(r.String(), ",") {
			t.Fatalf("%q is %q, and that is %+v, %v", text, r, again, err)
		}
	})
}

func TestNetworkRuleSettings(t *testing.T) {
	s := AgentDefaults()
	step := func(key, text, want string) {
		t.Helper()
		next, err := s.With(key, text)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(next.NetworkRules)
		if string(raw) != want || err != nil {
			t.Fatalf("%s=%s made %s, %v, want %s", key, text, raw, err, want)
		}
		s = next
	}
	step("network.rules+", "allow A.example:443", `["allow a.example:443"]`)
	step("network.rules+", "deny b.example,allow a.example:443", `["allow a.example:443","deny b.example"]`)
	step("network.rules-", "allow a.example.:443", `["deny b.example"]`)
	step("network.rules", "allow localhost", `["allow localhost"]`)
	if !s.AllowsLocalhost() {
		t.Error("the rule allow localhost does not count")
	}
	for key, text := range map[string]string{"network.rules-": "allow c.example", "network.rules+": "allow *.com", "network+": "open", "+": "", "": ""} {
		if next, err := s.With(key, text); err == nil || fault.AdviceOf(err) == "" || len(s.Differences(next)) > 0 {
			t.Errorf("%s=%s made %v, %v", key, text, next.NetworkRules, err)
		}
	}
	if _, err := s.With("network.rules", "allow *.com"); !strings.Contains(err.Error(), `item 1: "allow *.com" is not allowed: anybody can have a name`) {
		t.Error(err)
	}
	many := strings.Repeat("allow a.example,", maxListItems+1)
	if _, err := s.With("network.rules", many); err == nil || !strings.Contains(err.Error(), "257 items") {
		t.Error(err)
	}
	var full AgentSettings
	for i := range maxListItems {
		full.NetworkRules = append(full.NetworkRules, NetworkRule{Host: "a.example", FirstPort: uint16(i + 1), LastPort: uint16(i + 1)})
	}
	if next, err := full.With("network.rules+", "deny b.example"); err == nil || len(next.NetworkRules) != maxListItems {
		t.Error("a list has more than its limit", err)
	}
}

func TestSharedNetworkRules(t *testing.T) {
	f, err := load(t, `{"networkRules": ["deny bad.example"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set("networkRules+", "allow *.Example.org"); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	again, err := Load(f.path)
	if err != nil || spelled(again.Settings().NetworkRules) != "deny bad.example,allow *.example.org" {
		t.Errorf("%v, %v", again.Settings().NetworkRules, err)
	}
	if EffectOf("networkRules") != Live {
		t.Error("rules wait for the next start")
	}
	if _, err := load(t, `{"networkRules": ["allow 127.1"]}`); err == nil || !strings.Contains(err.Error(), "is a number") {
		t.Error(err)
	}
}
