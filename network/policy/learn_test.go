package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
)

func TestLearn(t *testing.T) {
	for _, tc := range []struct{ seen, want string }{ // separated by commas; each suggestion is its count and its rule
		{"", ""},
		{"a.example.org,a.example.org,b.example.org 80", "2 allow tcp a.example.org:443,1 allow tcp b.example.org:80"},
		{"a.example.org,b.example.org", "1 allow tcp a.example.org:443,1 allow tcp b.example.org:443"},
		{"a.example.org,b.example.org,c.example.org,a.example.org", "4 allow tcp *.example.org:443"},
		{"a.example.org,b.example.org,c.example.org 80", "1 allow tcp a.example.org:443,1 allow tcp b.example.org:443,1 allow tcp c.example.org:80"},
		{"a.example.org,b.example.org,udp c.example.org 9", "1 allow tcp a.example.org:443,1 allow tcp b.example.org:443,1 allow udp c.example.org:9"},
		{"a.example.org,b.example.org,c.d.example.org", "1 allow tcp a.example.org:443,1 allow tcp b.example.org:443,1 allow tcp c.d.example.org:443"},
		{"a.com,b.com,c.com", "1 allow tcp a.com:443,1 allow tcp b.com:443,1 allow tcp c.com:443"},
		{"a.co.uk,b.co.uk,c.co.uk", "1 allow tcp a.co.uk:443,1 allow tcp b.co.uk:443,1 allow tcp c.co.uk:443"},
		{"a.github.io,b.github.io,c.github.io", "1 allow tcp a.github.io:443,1 allow tcp b.github.io:443,1 allow tcp c.github.io:443"},
		{"x,y,z", "1 allow tcp x:443,1 allow tcp y:443,1 allow tcp z:443"},
		{"pypi.org,files.pythonhosted.org,registry.npmjs.org", "3 allow tcp @package-registries:443"},
		{"pypi.org,files.pythonhosted.org", "1 allow tcp files.pythonhosted.org:443,1 allow tcp pypi.org:443"},
		{"pypi.org,files.pythonhosted.org,registry.npmjs.org@10.0.0.9", "1 allow tcp files.pythonhosted.org:443,1 allow tcp pypi.org:443,1 allow tcp registry.npmjs.org:443"},
		{"github.com,api.github.com,raw.githubusercontent.com,ghcr.io", "4 allow tcp @github:443"},
		{"a.github.com,b.github.com,c.github.com", "3 allow tcp @github:443"}, // a set rather than *.github.com
		{"@8.8.8.8,@8.8.8.9,@8.8.8.10", "1 allow tcp 8.8.8.10:443,1 allow tcp 8.8.8.8:443,1 allow tcp 8.8.8.9:443"},
		{"@::ffff:8.8.8.8,@8.8.8.8", "2 allow tcp 8.8.8.8:443"},
		{"@10.0.2.2 8080,@127.0.0.1 8080", "2 allow tcp localhost:8080"},
		{"nas.example@10.0.0.9", "1 allow tcp nas.example:443"},
		{"evil.example@169.254.169.254 80", "1 allow tcp 169.254.169.254:80,1 allow tcp evil.example:80"},
		{"icmp a.example", "1 allow a.example"},
		{"udp a.example@8.8.8.8 443", ""}, // QUIC
		{"0x7f.1@127.0.0.1", ""},
	} {
		var seen []Observation
		for i, text := range strings.Split(tc.seen, ",") {
			if text != "" {
				seen = append(seen, once(target(t, text), today().Add(time.Duration(i)*time.Minute)))
			}
		}
		var got []string
		for _, s := range Learn(seen) {
			got = append(got, fmt.Sprintf("%d %s", s.Count, s.Rule))
			if s.Last.Before(s.First) || !slices.ContainsFunc(seen, func(o Observation) bool { return o.Target == s.Example && o.First.Equal(s.First) }) {
				t.Errorf("%s: %+v", tc.seen, s)
			}
		}
		if strings.Join(got, ",") != tc.want {
			t.Errorf("%s: %s, want %s", tc.seen, strings.Join(got, ","), tc.want)
		}
	}
	first, last := today(), today().Add(time.Hour)
	to := target(t, "a.example@8.8.8.8")
	got := Learn([]Observation{once(to, last), once(to, first)})
	if len(got) != 1 || got[0].Count != 2 || !got[0].First.Equal(first) || !got[0].Last.Equal(last) || got[0].Example != to {
		t.Errorf("%+v", got)
	}
}

// TestLearnedRulesSuffice checks that mode allow with the learned rules lets through all that was
// seen, and that the order of what was seen does not matter.
func TestLearnedRulesSuffice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	for range 300 {
		var seen []Observation
		for range 1 + random.IntN(40) {
			name := pick("a", "b", "c", "d") + pick(".example.org", ".x.example.org", ".co.uk", ".github.com", ".huggingface.co", "")
			name = pick(name, name, "pypi.org", "registry.npmjs.org", "crates.io", "github.com", "")
			to := Target{Protocol: Protocol(pick("tcp", "tcp", "udp", "icmp")), Name: name, Port: uint16(80 + random.IntN(3))}
			if text := pick("8.8.8.8", "2606:4700::1", "10.0.0.1", "127.0.0.1", "169.254.169.254", "64:ff9b::a00:1", "8.8.4.4"); name == "" || random.IntN(3) > 0 {
				to.Addr = netip.MustParseAddr(text)
			}
			if to.Protocol == ICMP {
				to.Port = 0
			}
			seen = append(seen, once(to, today().Add(time.Duration(random.IntN(9))*time.Hour)))
		}
		learned := Learn(seen)
		p := Policy{Mode: config.NetworkAllow}
		count := 0
		for _, s := range learned {
			p.Rules = append(p.Rules, s.Rule)
			count += s.Count
		}
		if count < len(seen) {
			t.Fatalf("%d of %d flows have a rule", count, len(seen))
		}
		for _, o := range seen {
			if d := p.Decide(o.Target, today()); d.Action != Allow {
				t.Fatalf("%+v with %v: %+v", o.Target, p.Rules, d)
			}
			if d := p.Resolve(o.Target.Name, today()); o.Target.Name != "" && d.Action != Allow {
				t.Fatalf("%s with %v: %+v", o.Target.Name, p.Rules, d)
			}
		}
		for _, foreign := range []string{"evil.example@9.9.9.9", "e.co.uk@9.9.9.9", "@1.1.1.1", "@10.0.0.2", "example.org@9.9.9.9 444"} {
			if d := p.Decide(target(t, foreign), today()); d.Action != Deny {
				t.Fatalf("%s with %v: %+v", foreign, p.Rules, d)
			}
		}
		random.Shuffle(len(seen), func(i, j int) { seen[i], seen[j] = seen[j], seen[i] })
		for i, s := range Learn(seen) {
			if s.Rule.String() != learned[i].Rule.String() || s.Count != learned[i].Count {
				t.Fatalf("another order has %v, was %v", s, learned[i])
			}
		}
	}
}

// once returns the observation of one flow.
func once(to Target, at time.Time) Observation {
	return Observation{Target: to, First: at, Last: at, Count: 1}
}
