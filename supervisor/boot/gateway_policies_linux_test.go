package boot_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
)

// What programs say of the kernel's errors.
const (
	connectionRefused = "connection refused"
	noRoute           = "no route to host"
	accessDenied      = "tls: access denied"
	resolver          = "10.0.2.2:53"
)

// policies tries the lists of all agents at the same time, so that each has its own rules while
// others have other ones.
func (s *gatewaySuite) policies(t *testing.T) {
	var running sync.WaitGroup
	for agent, attempts := range map[config.AgentID][]attempt{
		openAgent: s.openAttempts(), allowAgent: s.ruleAttempts(), askAgent: askAttempts(),
		noneAgent: noneAttempts(), observeAgent: s.observeAttempts(),
	} {
		running.Go(func() { s.try(t, agent, engine.Command{}, attempts) })
	}
	running.Wait()
}

// openAttempts are those of the agent who has the internet.
func (s *gatewaySuite) openAttempts() []attempt {
	list := []attempt{
		{"http http://a.example/x", "200 OK | page of a.example/x by GET"},
		{"tcp " + site + ":9000", "connected: hello"},
		{"tls a.example:443 a.example", "connected: hello a.example"},
		{"tls a.example:443 other.example", "connected: hello other.example"},
		{"udp a.example:443", "answered: ping"},
		{"udp " + site + ":4000", "answered: ping"},
		{"mapped [::ffff:" + site + "]:9000", "connected: hello"},
		{"ping " + site, "echo"},
		{"http http://both.example/", "200 OK"}, // only its public address is told
		{"dns udp " + resolver + " both.example A", "NOERROR " + site + "$"},
		{"http http://denied.example/", `the rule "deny denied.example" denies it`},
		{"http http://everywhere.example/", `the rule "deny everywhere.example" for all agents denies it`},
		// Local networks, in other spellings too.
		{"http http://" + private + "/", "403 The sandbox refuses " + private + ": local networks are closed"},
		{"tcp " + private + ":22", noRoute},
		{"udp " + private + ":4000", noRoute},
		{"ping " + private, noRoute},
		{"mapped [::ffff:" + private + "]:22", noRoute},
		{"http http://[::ffff:" + private + "]/", "403 "},
		{"http http://private.example/", "local networks are closed, and private.example is " + private},
		{"http http://mapped.example/", "local networks are closed, and mapped.example is " + private},
		{"tcp private.example:22", connectionRefused},
		{"http http://nat64.example/", "no such host"},
		{"tcp 100.100.100.200:22", connectionRefused},
		// This computer.
		{"tcp 10.0.2.2:" + s.world.loopback, noRoute},
		{"http http://loop.example/", "this computer is closed, and loop.example is 127.0.0.1"},
		{"tcp loop.example:" + s.world.loopback, connectionRefused},
		// A cloud's credentials.
		{"http http://" + cloud + "/latest", "link-local addresses, where clouds have credentials, are closed"},
		{"http http://cloud.example/latest", "link-local addresses, where clouds have credentials, are closed"},
		{"tcp " + container + ":22", noRoute},
		// IPv6.
		{"tcp [2606:4700:4700::1111]:443", "network is unreachable"},
		{"udp [2606:4700:4700::1111]:443", "network is unreachable"},
		{"tcp [fd00:ec2::254]:80", "network is unreachable"},
		{"dns udp " + resolver + " a.example AAAA", "NOERROR$"},
		{"dns udp " + resolver + " a.example HTTPS", "NOERROR$"}, // no ECH
		{"dns udp " + resolver + " _dns.a.example SVCB", "NOERROR$"},
		// Other name servers are this one, and none is encrypted.
		{"dns udp 8.8.8.8:53 a.example A", "NOERROR " + site},
		{"dns tcp 8.8.8.8:53 a.example A", "NOERROR " + site},
		{"dns tcp " + resolver + " gone.example A", "NXDOMAIN"},
		{"tcp 1.1.1.1:853", connectionRefused},
		{"udp 1.1.1.1:853", connectionRefused},
		{"dns udp " + resolver + " private.example A", "(18 local networks are closed"},
		{"dns udp " + resolver + " localhost A", "NOERROR 127.0.0.1"},
		{"dns udp " + resolver + " printer A", "NXDOMAIN"},
		{"dns udp " + resolver + " printer.local A", "NXDOMAIN"},
		{"tcp 198.18.77.77:22", noRoute}, // stands for no name
	}
	for _, number := range []string{"0x7f.1", "127.1", "2130706433", "0300.0250.1.10", "0xa9fea9fe"} {
		list = append(list, attempt{"dns udp " + resolver + " " + number + " A", "NXDOMAIN"})
	}
	for to, want := range map[string]string{
		"http://" + private + "/": "403 ", "http://" + cloud + "/latest": "403 ", "http://private.example/": "403 ", "http://cloud.example/": "403 ",
		"http://10.0.2.2:" + s.world.loopback + "/": noRoute, "http://127.0.0.1:" + s.world.loopback + "/": connectionRefused, "http://b.example/y": "200 OK | page of b.example/y",
	} {
		list = append(list, attempt{"http http://a.example/?" + to, want})
	}
	return list
}

// ruleAttempts try each form of a rule.
func (s *gatewaySuite) ruleAttempts() []attempt {
	port, _ := strconv.Atoi(s.world.loopback)
	return []attempt{
		{"http http://a.example/x", "200 OK | page of a.example/x"},
		{"http http://b.example/", "403 The sandbox refuses b.example: no rule allows b.example:80."},
		{"http http://b.example/", "osaurus-sandbox agent set bob 'network.rules+=allow tcp b.example:80'"},
		{"tls b.example:443 b.example", accessDenied},
		{"tcp b.example:9000", connectionRefused},
		{"http http://x.wild.example/", "200 OK"},
		{"http http://wild.example/", "403 "},
		{"http http://bad.wild.example/", `403 The sandbox refuses bad.wild.example: the rule "deny bad.wild.example" denies it`},
		{"http http://everywhere.example/", "for all agents denies it"},
		{"tcp ports.example:9000", "connected: hello"},
		{"tcp ports.example:9001", "connected: hello"},
		{"tcp ports.example:9002", connectionRefused},
		{"http http://ports.example/", "403 "},
		{"udp ports.example:4000", "answered: ping"},
		{"udp ports.example:4001", connectionRefused},
		{"udp ports.example:9000", connectionRefused},
		{"tcp " + company + ":9000", "connected: hello"},
		{"tcp " + company + ":9001", noRoute},
		{"tcp 10.21.1.5:9000", noRoute},
		{"http http://github.com/", "200 OK"},
		{"http http://api.example/v1/x", "200 OK | page of api.example/v1/x by GET"},
		{"http http://api.example/v1/x POST", "403 "},
		{"http http://api.example/v2/x", "403 "},
		{"http http://api.example/v1/%2e%2e/v2", "403 "},
		{"http http://expired.example/", "403 "},
		{"http http://lasting.example/", "200 OK"},
		{"http http://mirror.example/", "200 OK"}, // a person named it
		{"http http://public.example/", "local networks are closed, and public.example is " + company},
		{"http http://cloud.example/", "link-local addresses, where clouds have credentials, are closed"},
		{"http http://loop.example/", "this computer is closed"},
		{"tcp 10.0.2.2:" + s.world.loopback, "connected: hello"},
		{fmt.Sprint("tcp 10.0.2.2:", port^1), noRoute},
	}
}

func askAttempts() []attempt {
	return []attempt{
		{"http http://yes.example/", "200 OK | page of yes.example/"},
		{"tls yes.example:443 yes.example", "connected: hello yes.example"},
		{"tls yes.example:443 no.example", accessDenied},
		{"tcp yes.example:9000", "connected: hello"},
		{"udp yes.example:4000", "answered: ping"},
		{"http http://no.example/", "403 The sandbox refuses no.example: no rule names no.example:80"},
		{"tls no.example:443 no.example", accessDenied},
		{"tcp no.example:9000", connectionRefused},
		{"http http://" + untold + "/", "403 "},
		{"tcp yes-private.example:9000", connectionRefused},
		{"tcp " + private + ":22", noRoute},
		{"http http://" + cloud + "/", "403 "},
		{"http http://everywhere.example/", "403 "},
		{"tcp 10.0.2.2:9", noRoute},
	}
}

func noneAttempts() []attempt {
	return []attempt{
		{"http http://a.example/", "403 The sandbox refuses a.example: the agent has no network"},
		{"tls a.example:443 a.example", accessDenied},
		{"tcp a.example:9000", connectionRefused},
		{"tcp " + site + ":9000", connectionRefused},
		{"tcp " + private + ":22", noRoute},
		{"udp " + site + ":4000", connectionRefused},
		{"ping " + site, noRoute},
		{"dns udp 8.8.8.8:53 a.example A", "(18 the agent has no network)"},
	}
}

func (s *gatewaySuite) observeAttempts() []attempt {
	return []attempt{
		{"http http://b.example/", "200 OK"},
		{"tls b.example:443 other.example", "connected: hello other.example"},
		{"http http://everywhere.example/", "200 OK"},
		{"tcp " + observed + ":9000", "connected: hello"},
		{"http http://container.example/", "200 OK"},
		{"tcp 10.0.2.2:" + s.world.loopback, "connected: hello"},
		{"tcp 1.1.1.1:853", connectionRefused}, // names would not be known
	}
}

// plugins checks that a plugin has rules of its own, beside those of its agent.
func (s *gatewaySuite) plugins(t *testing.T) {
	for agent, attempts := range map[config.AgentID][]attempt{
		openAgent: {
			{"http http://plugin.example/", "200 OK"},
			{"http http://a.example/", "the plugin does not declare the host a.example"},
			{"tls plugin.example:443 a.example", accessDenied},
			{"tcp " + untold + ":9000", connectionRefused},
			{"http http://private.example/", "local networks are closed"},
			{"udp plugin.example:443", connectionRefused},
			{"dns udp 8.8.8.8:53 a.example A", "(18 the plugin does not declare the host a.example)"},
		},
		allowAgent: {
			{"http http://a.example/", "200 OK"},
			{"http http://b.example/", "no rule allows b.example"}, // declared, but its agent may not
			{"http http://x.wild.example/", "the plugin does not declare the host x.wild.example"},
		},
	} {
		address, err := s.home.guest.Gateway().Join(network.Subject{Agent: agent, Plugin: "rss"})
		if err != nil {
			t.Fatal(err)
		}
		s.try(t, agent, engine.Command{Plugin: "rss", Network: engine.NetworkOfPlugin, Address: address}, attempts)
	}
}

// records checks what was dialed, asked and recorded.
func (s *gatewaySuite) records(t *testing.T) {
	for _, d := range s.world.Dials() {
		if a := d.To.Addr(); a == netip.MustParseAddr(private) || a == netip.MustParseAddr(cloud) || a.IsLoopback() && fmt.Sprint(d.To.Port()) != s.world.loopback {
			t.Errorf("the gateway connected to %v", d)
		}
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, asked := range s.world.asked {
		host, of := strings.CutPrefix(asked, string(askAgent)+" ")
		if !of || strings.HasPrefix(host, private) || strings.HasPrefix(host, cloud) || strings.HasPrefix(host, "10.") || strings.HasPrefix(host, "everywhere") {
			t.Errorf("somebody was asked about %s", asked)
		}
	}
	if len(s.world.asked) == 0 {
		t.Error("nobody was asked")
	}
	refused, seen := map[config.AgentID]int{}, 0
	for _, f := range s.world.flows {
		if f.Decision.Action == policy.Deny && f.Decision.Reason == "" {
			t.Errorf("refused without a reason: %+v", f)
		}
		if f.Decision.Action == policy.Deny {
			refused[f.Subject.Agent]++
		}
		if f.Decision.Observed {
			seen++
		}
		if f.Decision.Observed && f.Subject.Agent != observeAgent {
			t.Errorf("observed: %+v", f)
		}
	}
	if refused[openAgent] == 0 || refused[allowAgent] == 0 || refused[askAgent] == 0 || refused[noneAgent] == 0 || seen == 0 {
		t.Errorf("refused %v, observed %d", refused, seen)
	}
	if n := s.home.guest.Gateway().Stats(); n.Refused == 0 {
		t.Errorf("%+v", n)
	}
}
