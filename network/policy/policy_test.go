package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
)

func today() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

func rules(t testing.TB, texts ...string) []config.NetworkRule {
	t.Helper()
	var list []config.NetworkRule
	for _, text := range texts {
		r, err := config.ParseNetworkRule(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// target parses "[udp|icmp ]NAME[@ADDRESS][ PORT]"; an address alone is "@ADDRESS".
func target(t testing.TB, text string) Target {
	t.Helper()
	r := Target{Protocol: TCP, Port: 443}
	words := strings.Fields(text)
	if p := Protocol(words[0]); p == UDP || p == ICMP {
		r.Protocol, words = p, words[1:]
	}
	name, addr, _ := strings.Cut(words[0], "@")
	r.Name = name
	if addr != "" {
		r.Addr = netip.MustParseAddr(addr)
	}
	if len(words) > 1 {
		port, err := config.ParseNetworkRule("allow a.b:" + words[1])
		if err != nil {
			t.Fatal(err)
		}
		r.Port = port.FirstPort
	}
	if r.Protocol == ICMP {
		r.Port = 0
	}
	return r
}

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		mode   config.NetworkMode
		rules  string // separated by commas
		target string
		want   string // the action and a part of the reason
	}{
		// Mode open.
		{"open", "", "api.example.org@8.8.8.8", "allow the internet is open"},
		{"open", "", "@8.8.8.8 22", "allow"},
		{"open", "", "@2606:4700::1", "allow"},
		{"open", "", "udp a.example@8.8.8.8 443", "allow"},
		{"open", "", "icmp @8.8.8.8", "allow"},
		{"open", "", "udp @8.8.8.8 443", "allow"},
		{"open", "deny a.example", "udp @8.8.8.8 443", "deny QUIC"},
		{"open", "deny a.example", "udp b.example@8.8.8.8 443", "allow"},
		{"open", "deny a.example,allow udp 8.8.8.8:443", "udp @8.8.8.8 443", "allow"},
		{"open", "deny a.example,allow localhost", "udp @127.0.0.1 443", "allow"},
		{"open", "deny *.example.org", "api.example.org@8.8.8.8", `deny the rule "deny *.example.org" denies it`},
		{"open", "deny *.example.org", "example.org@8.8.8.8", "allow"},
		{"open", "deny *.example.org", "evil-example.org@8.8.8.8", "allow"},
		{"open", "deny *", "api.example.org@8.8.8.8", "deny"},
		{"open", "deny *", "@8.8.8.8", "deny"},
		{"open", "deny 8.8.8.0/24", "api.example.org@8.8.8.8", "deny"},
		{"open", "deny 8.8.8.8", "@::ffff:8.8.8.8", "deny"},
		{"open", "deny 8.8.8.8", "@64:ff9b::808:808", "deny"},
		{"open", "deny tcp *:22", "@8.8.8.8 22", "deny"},
		{"open", "deny tcp *:22", "udp @8.8.8.8 22", "allow"},
		{"open", "deny *:22", "icmp @8.8.8.8", "allow"},
		{"open", "deny @github", "api.github.com@8.8.8.8", "deny"},
		{"open", "deny api.example.org:80", "api.example.org@8.8.8.8 81", "allow"},

		// A deny wins over every allow, and what has ended does not count.
		{"open", "allow a.example,deny a.example", "a.example@8.8.8.8", "deny"},
		{"allow", "deny *.example.org,allow api.example.org", "api.example.org@8.8.8.8", "deny"},
		{"allow", "allow a.example until=2026-05-31", "a.example@8.8.8.8", "deny no rule allows a.example:443"},
		{"allow", "allow a.example until=2026-06-01", "a.example@8.8.8.8", "allow"},
		{"open", "deny a.example until=2026-06-01T12:00:00Z", "a.example@8.8.8.8", "allow"},

		// Mode allow.
		{"allow", "", "a.example@8.8.8.8", "deny no rule allows a.example:443"},
		{"allow", "allow a.example", "a.example@8.8.8.8", `allow the rule "allow a.example" allows it`},
		{"allow", "allow a.example", "b.a.example@8.8.8.8", "deny"},
		{"allow", "allow a.example", "evil-a.example@8.8.8.8", "deny"},
		{"allow", "allow a.example", "a.example.evil.org@8.8.8.8", "deny"},
		{"allow", "allow *.example.org", "a.b.example.org@8.8.8.8", "allow"},
		{"allow", "allow *.example.org", "example.org@8.8.8.8", "deny"},
		{"allow", "allow *.example.org", "evil-example.org@8.8.8.8", "deny"},
		{"allow", "allow a.example:443", "a.example@8.8.8.8 80", "deny no rule allows a.example:80"},
		{"allow", "allow a.example:80-90", "a.example@8.8.8.8 90", "allow"},
		{"allow", "allow a.example:80-90", "a.example@8.8.8.8 91", "deny"},
		{"allow", "allow udp a.example", "a.example@8.8.8.8", "deny"},
		{"allow", "allow udp a.example", "udp a.example@8.8.8.8 123", "allow"},
		{"allow", "allow a.example", "icmp a.example@8.8.8.8", "allow"},
		{"allow", "allow tcp a.example", "icmp a.example@8.8.8.8", "deny"},
		{"allow", "allow a.example:443", "icmp a.example@8.8.8.8", "deny"},
		{"allow", "allow a.example", "@8.8.8.8", "deny no rule allows 8.8.8.8:443"},
		{"allow", "allow @github", "api.github.com@8.8.8.8", "allow"},
		{"allow", "allow @github", "@8.8.8.8", "deny"},
		{"allow", "allow @unknown", "a.example@8.8.8.8", "deny"},
		{"allow", "allow 8.8.8.0/24", "@8.8.8.8", "allow"},
		{"allow", "allow 8.8.8.0/24", "@::ffff:8.8.8.8", "allow"},
		{"allow", "allow 8.8.8.0/24", "@8.8.9.8", "deny"},
		{"allow", "allow *", "@8.8.8.8", "allow"},
		{"allow", "allow *", "a.example@8.8.8.8", "allow"},
		{"allow", "allow *:443", "a.example@8.8.8.8 80", "deny"},
		{"allow", "allow a.example", "a.example", "allow"}, // the address is not known yet
		{"allow", "allow *", "udp a.example@8.8.8.8 443", "deny QUIC"},
		{"allow", "allow a.example", "udp a.example@8.8.8.8 444", "allow"},

		// Mode ask.
		{"ask", "", "a.example@8.8.8.8", "ask no rule names a.example:443"},
		{"ask", "allow a.example", "a.example@8.8.8.8", "allow"},
		{"ask", "deny a.example", "a.example@8.8.8.8", "deny"},
		{"ask", "", "@10.0.0.1", "deny local networks are closed"},
		{"ask", "", "udp a.example@8.8.8.8 443", "deny QUIC"},

		// Mode none, and what is no mode.
		{"none", "allow *", "a.example@8.8.8.8", "deny the agent has no network"},
		{"", "allow *", "a.example@8.8.8.8", "deny"},
		{"proxy", "allow *", "a.example@8.8.8.8", "deny"},

		// Who opens closed ranges.
		{"open", "", "a.example@10.1.2.3", "deny local networks are closed, and a.example is 10.1.2.3"},
		{"open", "allow a.example", "a.example@10.1.2.3", "allow"},
		{"open", "allow *.example.org", "a.example.org@192.168.0.9", "allow"},
		{"open", "allow *.example.org public", "a.example.org@192.168.0.9", "deny local networks"},
		{"allow", "allow *.example.org public", "a.example.org@8.8.8.8", "allow"},
		{"open", "allow *", "a.example@10.1.2.3", "deny"},
		{"open", "allow *", "@10.1.2.3", "deny"},
		{"open", "allow @github", "github.com@10.1.2.3", "deny"},
		{"open", "allow 0.0.0.0/0", "@10.1.2.3", "deny"},
		{"open", "allow 8.0.0.0/5", "@10.1.2.3", "deny"},
		{"open", "allow 10.0.0.0/8", "@10.1.2.3", "allow"},
		{"open", "allow 10.1.2.3:443", "a.example@10.1.2.3", "allow"},
		{"open", "allow 10.1.2.3:443", "@::ffff:10.1.2.3", "allow"},
		{"open", "allow a.example", "@10.1.2.3", "deny"},
		{"open", "allow a.example", "a.example@127.0.0.1", "deny this computer is closed"},
		{"open", "allow a.example", "a.example@169.254.169.254", "deny link-local"},
		{"open", "allow a.example", "a.example@fd00:ec2::254", "deny link-local"},
		{"open", "allow a.example", "a.example@fd12::1", "allow"},
		{"open", "allow a.example", "a.example@0.0.0.0", "deny this computer"},
		{"open", "allow 169.254.169.254", "@169.254.169.254 80", "allow"},
		{"open", "allow 169.254.0.0/16", "@169.254.169.254 80", "allow"},
		{"open", "allow 100.64.0.0/10", "@100.100.100.200", "deny"}, // Alibaba's metadata: by itself alone
		{"open", "allow localhost", "@127.0.0.1 8080", "allow"},
		{"open", "allow localhost", "localhost@127.0.0.1 8080", "allow"}, // how the gateway names itself
		{"allow", "allow localhost:8080", "localhost@127.0.0.1 8081", "deny this computer is closed"},
		{"allow", "allow *", "localhost@127.0.0.1 8081", "deny this computer is closed"},
		{"open", "allow localhost", "@10.0.2.2 8080", "allow"},
		{"open", "allow localhost", "@::1 8080", "allow"},
		{"open", "allow localhost:8080", "@10.0.2.2 8081", "deny this computer"},
		{"allow", "allow localhost", "@10.0.2.2 8080", "allow"},
		{"open", "allow localhost", "@0.0.0.0 8080", "deny"},
		{"open", "deny localhost,allow localhost", "@10.0.2.2 8080", "deny"},
		{"open", "allow 10.0.0.0/8", "@10.0.2.2 8080", "deny this computer"},
		{"open", "allow 127.0.0.1:8080", "@10.0.2.2 8080", "allow"},
		{"allow", "allow 10.0.0.0/8", "nas.example@10.1.2.3", "allow"},
		{"open", "", "@203.0.114.1", "allow"},
		{"open", "", "@5.6.7.8", "deny local networks"}, // one that this computer is on: see Local below
		{"open", "allow a.example", "a.example@5.6.7.8", "allow"},
		{"open", "allow 5.6.7.8", "@5.6.7.8", "allow"},
		{"open", "allow a.example", "a.example@5.6.7.1", "deny this computer"},
		{"open", "allow a.example", "a.example@192.168.5.1", "deny this computer"},
		{"open", "allow 192.168.5.1", "@192.168.5.1", "allow"},

		// What is no name.
		{"open", "", "0x7f.1@8.8.8.8", "deny this is not a host name"},
		{"open", "", "API.example@8.8.8.8", "deny this is not a host name"},
	} {
		p := Policy{Mode: tc.mode, Local: []netip.Prefix{netip.MustParsePrefix("5.6.7.1/24"), netip.MustParsePrefix("192.168.5.1/24")}}
		if tc.rules != "" {
			p.Rules = rules(t, strings.Split(tc.rules, ",")...)
		}
		d := p.Decide(target(t, tc.target), today())
		if got := string(d.Action) + " " + d.Reason; !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s [%s] %s: %s, want %s", tc.mode, tc.rules, tc.target, got, tc.want)
		}
	}
}

// TestN11N12ClosedRanges checks that mode open reaches no special address, however it is written.
func TestN11N12ClosedRanges(t *testing.T) {
	p := Policy{Mode: config.NetworkOpen, Rules: rules(t, "allow *", "allow 0.0.0.0/0", "allow ::/0", "allow @github")}
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
		"203.0.113.1", "224.0.0.251", "239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16", "10.0.2.2", "10.0.2.15",
		"::", "::1", "::2", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
		"100::1", "2001::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fdff::1",
		"fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1", "ff05::2",
	} {
		a := netip.MustParseAddr(text)
		for _, name := range []string{"", "github.com", "rebinding.example"} {
			d := p.Decide(Target{Protocol: TCP, Name: name, Addr: a, Port: 80}, today())
			if d.Action != Deny || !strings.Contains(d.Reason, "closed") {
				t.Errorf("%q at %s: %+v", name, text, d)
			}
			// The advice opens it.
			opened := p
			_, rule, ok := strings.Cut(strings.TrimSuffix(d.Advice, "'"), "network.rules+=")
			if !ok {
				t.Errorf("%q at %s: the advice is %q", name, text, d.Advice)
				continue
			}
			opened.Rules = append(slices.Clone(p.Rules), rules(t, rule)...)
			if d := opened.Decide(Target{Protocol: TCP, Name: name, Addr: a, Port: 80}, today()); d.Action != Allow {
				t.Errorf("%q at %s with %s: %+v", name, text, rule, d)
			}
			if d := opened.Decide(Target{Protocol: TCP, Name: name, Addr: a, Port: 81}, today()); d.Action != Deny {
				t.Errorf("%q at %s with %s, port 81: %+v", name, text, rule, d)
			}
		}
	}
	for _, text := range []string{"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.0.1", "172.15.255.255", "172.32.0.0", "192.0.1.1", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888", "64:ff9b::808:808"} {
		if d := p.Decide(Target{Protocol: TCP, Addr: netip.MustParseAddr(text), Port: 80}, today()); d.Action != Allow {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		mode  config.NetworkMode
		rules string
		name  string
		want  Action
	}{
		{"open", "", "a.example", Allow},
		{"open", "deny a.example", "a.example", Deny},
		{"open", "deny a.example:80", "a.example", Allow},
		{"open", "deny tcp a.example", "a.example", Allow},
		{"open", "deny a.example method=POST", "a.example", Allow},
		{"open", "deny *", "a.example", Deny},
		{"open", "deny 0.0.0.0/0", "a.example", Allow},
		{"none", "allow a.example", "a.example", Deny},
		{"", "allow a.example", "a.example", Deny},
		{"allow", "", "a.example", Deny},
		{"allow", "allow a.example:80", "a.example", Allow},
		{"allow", "allow a.example method=GET path=/x", "a.example", Allow},
		{"allow", "allow udp a.example:53", "a.example", Allow},
		{"allow", "allow *.example.org", "data.evil.example.org", Allow},
		{"allow", "allow *.example.org", "evil-example.org", Deny},
		{"allow", "allow 10.0.0.0/8", "a.example", Deny},
		{"allow", "allow localhost", "a.example", Deny},
		{"allow", "allow @package-registries", "pypi.org", Allow},
		{"allow", "allow *", "a.example", Allow},
		{"allow", "allow a.example until=2026-05-01", "a.example", Deny},
		{"ask", "", "a.example", Ask},
		{"ask", "deny a.example", "a.example", Deny},
	} {
		p := Policy{Mode: tc.mode}
		if tc.rules != "" {
			p.Rules = rules(t, tc.rules)
		}
		if d := p.Resolve(tc.name, today()); d.Action != tc.want || d.Reason == "" || d.Action != Allow && d.Advice == "" {
			t.Errorf("%s [%s] %s: %+v, want %s", tc.mode, tc.rules, tc.name, d, tc.want)
		}
	}
	// Some programs take these for addresses; no rule and no observing lets them resolve.
	p := Policy{Mode: config.NetworkOpen, Observe: true, Rules: rules(t, "allow *")}
	for _, name := range []string{"0x7f.1", "0x7f000001", "2130706433", "127.1", "127.0.0.1", "0177.0.0.1", "a.0x", "a.1", "::1", "", ".", "a..b", "localhost", "x.localhost", "A.example", "a.example.", "\u0430.example", "a b.example", strings.Repeat("a.", 127) + "org", strings.Repeat("a", 64) + ".org"} {
		if d := p.Resolve(name, today()); d.Action != Deny {
			t.Errorf("%q: %+v", name, d)
		}
	}
}

func TestObserve(t *testing.T) {
	for _, mode := range []config.NetworkMode{"open", "allow", "ask"} {
		p := Policy{Mode: mode, Observe: true, Rules: rules(t, "deny bad.example")}
		d := p.Decide(target(t, "bad.example@8.8.8.8"), today())
		if d.Action != Allow || !d.Observed || d.Rule == nil || d.Rule.String() != "deny bad.example" || d.Advice != "osaurus-sandbox agent set NAME 'network.rules-=deny bad.example'" {
			t.Errorf("%s: %+v", mode, d)
		}
		if d := p.Resolve("other.example", today()); d.Action != Allow || d.Observed != (mode != "open") {
			t.Errorf("%s: %+v", mode, d)
		}
	}
	p := Policy{Mode: config.NetworkClosed, Observe: true, Rules: rules(t, "allow *")}
	if d := p.Decide(target(t, "@8.8.8.8"), today()); d.Action != Deny || d.Observed {
		t.Errorf("%+v", d)
	}
	if d := p.Resolve("a.example", today()); d.Action != Deny || d.Observed {
		t.Errorf("%+v", d)
	}
}

// TestHosts checks that a plugin reaches what both its recipe and its agent allow.
func TestHosts(t *testing.T) {
	for _, tc := range []struct {
		mode   config.NetworkMode
		hosts  []string
		rules  string
		target string
		want   Action
	}{
		{"open", []string{"a.example"}, "", "a.example@8.8.8.8", Allow},
		{"open", []string{"a.example"}, "", "b.example@8.8.8.8", Deny},
		{"open", []string{"a.example"}, "allow *", "b.example@8.8.8.8", Deny},
		{"open", []string{"a.example"}, "allow 8.8.8.8", "@8.8.8.8", Deny},
		{"open", []string{"a.example"}, "", "a.example@10.0.0.1", Deny},
		{"open", []string{"a.example"}, "deny a.example", "a.example@8.8.8.8", Deny},
		{"open", []string{"a.example"}, "", "udp a.example@8.8.8.8 443", Deny},
		{"open", []string{}, "", "a.example@8.8.8.8", Deny},
		{"open", nil, "", "a.example@8.8.8.8", Allow},
		{"allow", []string{"a.example"}, "", "a.example@8.8.8.8", Deny},
		{"allow", []string{"a.example"}, "allow a.example", "a.example@8.8.8.8", Allow},
		{"none", []string{"a.example"}, "allow a.example", "a.example@8.8.8.8", Deny},
	} {
		p := Policy{Mode: tc.mode, Hosts: tc.hosts}
		if tc.rules != "" {
			p.Rules = rules(t, tc.rules)
		}
		if d := p.Decide(target(t, tc.target), today()); d.Action != tc.want {
			t.Errorf("%s %q [%s] %s: %+v, want %s", tc.mode, tc.hosts, tc.rules, tc.target, d, tc.want)
		}
		if want := tc.mode == "allow" || tc.hosts != nil; p.ByName() != want {
			t.Errorf("%s %q: names decide: %t", tc.mode, tc.hosts, !want)
		}
	}
	if d := (Policy{Mode: config.NetworkOpen, Hosts: []string{"a.example"}}).Resolve("b.example", today()); d.Action != Deny || !strings.Contains(d.Reason, "does not declare the host b.example") {
		t.Errorf("%+v", d)
	}
}

// TestAdvice checks that each refusal's command changes it.
func TestAdvice(t *testing.T) {
	shared := rules(t, "deny bad.example", "deny tcp worse.example:443")
	p := Policy{Mode: config.NetworkAllow, Rules: shared, Shared: 1}
	for _, tc := range []struct{ target, request, want string }{
		{"bad.example@8.8.8.8", "", "osaurus-sandbox config set 'networkRules-=deny bad.example'"},
		{"worse.example@8.8.8.8", "", "osaurus-sandbox agent set NAME 'network.rules-=deny tcp worse.example:443'"},
		{"a.example@8.8.8.8", "", "osaurus-sandbox agent set NAME 'network.rules+=allow tcp a.example:443'"},
		{"udp a.example@8.8.8.8 53", "", "osaurus-sandbox agent set NAME 'network.rules+=allow udp a.example:53'"},
		{"icmp a.example@8.8.8.8", "", "osaurus-sandbox agent set NAME 'network.rules+=allow a.example'"},
		{"@2606:4700::1 80", "", "osaurus-sandbox agent set NAME 'network.rules+=allow tcp [2606:4700::1]:80'"},
		{"@10.0.2.2 8080", "", "osaurus-sandbox agent set NAME 'network.rules+=allow tcp localhost:8080'"},
		{"a.example@10.9.9.9", "", "osaurus-sandbox agent set NAME 'network.rules+=allow tcp a.example:443'"},
		{"a.example@169.254.169.254 80", "", "osaurus-sandbox agent set NAME 'network.rules+=allow tcp 169.254.169.254:80'"},
		{"a.example@8.8.8.8", "POST /v1/x", "osaurus-sandbox agent set NAME 'network.rules+=allow tcp a.example:443 method=POST path=/v1/x'"},
		{"a.example@8.8.8.8", "POST /';rm -rf", ""}, // a rule without the path would allow more
		{"a.example@8.8.8.8", "POST /v1/*", ""},     // and so would these
		{"a.example@8.8.8.8", "GET|POST /v1/x", ""}, // a parameter _method can say this
		{"udp c.example@8.8.8.8 443", "", ""},
	} {
		to := target(t, tc.target)
		to.Method, to.Path, _ = strings.Cut(tc.request, " ")
		if d := p.Decide(to, today()); d.Action != Deny || d.Advice != tc.want {
			t.Errorf("%s %s: %s %q, want %q", tc.target, tc.request, d.Action, d.Advice, tc.want)
		}
	}
	off := Of(config.Settings{Network: config.NetworkNone}, config.AgentDefaults())
	if d := off.Decide(target(t, "a.example@8.8.8.8"), today()); d.Action != Deny || d.Advice != "osaurus-sandbox config set network=outbound" {
		t.Errorf("without a network: %+v", d)
	}
	for _, text := range []string{"a.example@8.8.8.8", "a.example@10.9.9.9", "a.example@169.254.169.254", "a.example@192.0.2.1", "a.example@127.0.0.1", "@10.0.2.2 8080"} {
		to := target(t, text)
		rule, ok := p.RuleFor(to)
		if d := (Policy{Mode: config.NetworkAllow, Rules: []config.NetworkRule{rule}}).Decide(to, today()); !ok || d.Action != Allow {
			t.Errorf("%s: %s does not allow it: %s", text, rule, d.Reason)
		}
	}
	if d := (Policy{}).Decide(target(t, "@8.8.8.8"), today()); d.Advice != "osaurus-sandbox agent set NAME network=open" {
		t.Errorf("%+v", d)
	}
}

func TestOf(t *testing.T) {
	home, agent := config.Defaults(), config.AgentDefaults()
	home.NetworkRules, agent.NetworkRules, agent.NetworkObserve = rules(t, "deny a.example"), rules(t, "allow b.example"), true
	p := Of(home, agent)
	if p.Mode != config.NetworkOpen || !p.Observe || p.Shared != 1 || len(p.Rules) != 2 || !p.Rules[0].Deny {
		t.Errorf("%+v", p)
	}
	home.Network = config.NetworkNone
	if d := Of(home, agent).Decide(target(t, "b.example@8.8.8.8"), today()); d.Action != Deny {
		t.Errorf("%+v", d)
	}
}

func BenchmarkDecide(b *testing.B) {
	p := Policy{Mode: config.NetworkAllow}
	for i := range 100 {
		text := []string{"allow *.h" + string(rune('a'+i%26)) + ".example.org:443", "allow @package-registries", "deny 10.0.0.0/8", "allow x.example until=2026-12-31"}[i%4]
		p.Rules = append(p.Rules, rules(b, text)...)
	}
	to := target(b, "some.host.example.net@8.8.8.8")
	for b.Loop() {
		if d := p.Decide(to, today()); d.Action != Deny {
			b.Fatal(d)
		}
	}
}
