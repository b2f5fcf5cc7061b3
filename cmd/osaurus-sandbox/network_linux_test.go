package main

import (
	"context"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/egress"
	"osaurus-sandbox/supervisor/hosttest"
)

// daemonHere runs the daemon of a new home in this process, without a guest, until the test ends.
func daemonHere(t *testing.T) *control.Server {
	t.Helper()
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	t.Setenv(config.HomeVariable, string(home))
	if _, err := home.Make(string(home)); err != nil {
		t.Fatal(err)
	}
	ok(t, "config", "set", "autoStart=false")
	ctx, end := context.WithCancel(context.Background())
	ready, ended := make(chan *control.Server, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Home: home, Backend: &hosttest.Backend{}, Ready: func(s *control.Server) { ready <- s }})
	}()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case s := <-ready:
		return s
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	case <-time.After(timetest.Limit):
		t.Fatal("the daemon does not start")
	}
	return nil
}

func TestNetwork(t *testing.T) {
	server := daemonHere(t)
	server.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
	shows(t, "network.rules                1 rule\n", "agent", "create", "alice", "network=allow", "network.rules=allow api.example.org:443")
	shows(t, "allow, 1 rule ", "agent", "list")
	agent, err := server.Agents.Get("alice")
	if err != nil {
		t.Fatal(err)
	}
	who := network.Subject{Agent: agent.ID}
	ok(t, "config", "set", "networkRules=deny *.example.net")

	t.Run("rules", func(t *testing.T) {
		shows(t, "allow tcp other.example.org:22", "network", "allow", "alice", "tcp other.example.org:22", "@github")
		shows(t, "deny bad.example.org until=2999-01-01", "network", "deny", "alice", "deny bad.example.org until=2999-01-01")
		prints(t, strings.Join([]string{
			"network=allow", "all agents  deny *.example.net", "agent       allow api.example.org:443", "agent       allow tcp other.example.org:22",
			"agent       allow @github", "agent       deny bad.example.org until=2999-01-01", "",
		}, "\n"), "network", "rules", "alice")
		fails(t, fault.ExitInvalidArgs, "A rule is", "network", "allow", "alice", "https://api.example.org")
		fails(t, fault.ExitInvalidArgs, "@package-registries", "network", "allow", "alice", "@nothing")
		fails(t, fault.ExitNotFound, "allow api.example.org:443", "network", "forget", "alice", "deny *.example.net")
		fails(t, fault.ExitNotFound, "it has no", "network", "forget", "alice", "allow api.example.org:80")
		ok(t, "network", "forget", "alice", "deny bad.example.org until=2999-01-01", "allow  tcp other.example.org:22")
		if out := ok(t, "network", "rules", "alice"); strings.Contains(out, "bad.") || strings.Contains(out, "other.") {
			t.Errorf("%s", out)
		}
		shows(t, "network is now: allow, observed, 2 rules", "agent", "set", "alice", "network.observe=true")
		shows(t, "2 rules", "agent", "show", "alice")
		shows(t, "observed: nothing is refused", "network", "rules", "alice")
		ok(t, "agent", "set", "alice", "network.observe=false")
	})
	t.Run("explain", func(t *testing.T) {
		out := ok(t, "network", "explain", "alice", "https://api.example.org/v1")
		for _, want := range []string{"api.example.org:443 at 93.184.216.34: allowed\n", `the rule "allow api.example.org:443"`} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		shows(t, `the rule "deny *.example.net" for all agents`, "network", "explain", "alice", "www.example.net")
		out = ok(t, "network", "explain", "alice", "new.example.org")
		for _, want := range []string{": refused\n", "network=allow", "osaurus-sandbox agent set alice 'network.rules+=allow"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		fails(t, fault.ExitInvalidArgs, "HOST:PORT", "network", "explain", "alice", "no host")
		fails(t, fault.ExitNotFound, "agent list", "network", "explain", "nobody", "example.org")
	})
	t.Run("log and learn", func(t *testing.T) {
		shows(t, "", "network", "log", "alice")
		for name, action := range map[string]policy.Action{"api.example.org": policy.Allow, "new\x1b[2J.example.org": policy.Deny, "new.example.org": policy.Deny} {
			server.Flows.Record(network.Flow{
				Subject: who, Target: policy.Target{Protocol: policy.TCP, Name: name, Addr: netip.MustParseAddr("93.184.216.34"), Port: 443},
				Decision: policy.Decision{Action: action, Reason: "no rule allows it"},
			})
		}
		out := ok(t, "network", "log", "alice")
		if !strings.Contains(out, "allowed") || !strings.Contains(out, "no rule allows it") || strings.Contains(out, "\x1b") {
			t.Errorf("%q", out)
		}
		if out := ok(t, "network", "log", "alice", "--refused", "--json"); strings.Contains(out, "api.example.org") || strings.Count(out, "\n") != 2 {
			t.Errorf("%s", out)
		}
		shows(t, "allow tcp new.example.org:443", "network", "learn", "alice")
		here := policy.Target{Protocol: policy.TCP, Addr: netip.MustParseAddr("127.0.0.1"), Port: 11434}
		server.Flows.Record(network.Flow{Subject: who, Target: here, Decision: policy.Decision{Action: policy.Deny, Reason: "it was used up"}, Error: "ended"})
		shows(t, "localhost:11434", "network", "log", "alice")
		shows(t, "it was used up", "network", "log", "alice")
		if out := ok(t, "network", "log", "@guest"); strings.Contains(out, "example") {
			t.Errorf("%s", out)
		}
	})
	t.Run("completion", func(t *testing.T) {
		for line, want := range map[string]string{
			"network log": "alice", "network forget alice": "allow api.example.org:443", "network allow alice": "@github", "network sets": "@github", "prompt answer 1f0c9a3e": "session",
			"agent set alice": "network=ask", "agent create bob": "network.observe=true", "config set": "network=none",
		} {
			completes(t, want, append(strings.Fields(line), "")...)
		}
		if out := ok(t, "__complete", "network", "forget", "alice", ""); strings.Contains(out, "example.net") {
			t.Errorf("offers to forget the rules for all agents: %s", out)
		}
	})
	t.Run("prompts", func(t *testing.T) { tryNetworkPrompts(t, server, who) })
	t.Run("sets", func(t *testing.T) {
		shows(t, "@github", "network", "sets")
		shows(t, "github.com\n", "network", "sets", "@github")
		fails(t, fault.ExitNotFound, "network sets", "network", "sets", "nothing")
		var set policy.Set
		if err := json.Unmarshal([]byte(ok(t, "network", "sets", "github", "--json")), &set); err != nil || set.Name != "github" {
			t.Errorf("%v, %v", set, err)
		}
	})
}

// tryNetworkPrompts lists and answers questions about the network.
func tryNetworkPrompts(t *testing.T, server *control.Server, who network.Subject) {
	asker := egress.NewAsker(egress.AskOptions{Policies: server.Policies, Prompts: server.Prompts})
	defer asker.Close()
	ask := func(name string) (string, <-chan bool) {
		done := make(chan bool, 1)
		go func() {
			done <- asker.Ask(t.Context(), who, policy.Target{Protocol: policy.TCP, Name: name, Port: 443})
		}()
		timetest.Eventually(t, "a person is asked", func() bool { return len(server.Prompts.List()) > 0 })
		return string(server.Prompts.List()[0].ID), done
	}
	id, done := ask("ask.example.org")
	shows(t, "the network, to connect to ask.example.org:443", "prompt", "list")
	fails(t, fault.ExitInvalidArgs, "once, session, always, no or never", "prompt", "answer", id, "perhaps")
	fails(t, fault.ExitUserDenied, "prompt answer PROMPT once", "prompt", "answer")
	shows(t, "session: agent alice to ask.example.org:443", "prompt", "answer", id, "session")
	if !<-done {
		t.Error("refused")
	}
	shows(t, "this session  allow tcp ask.example.org:443 public\n", "network", "rules", "alice")
	shows(t, ", your answer for this session", "network", "explain", "alice", "ask.example.org")
	fails(t, fault.ExitNotFound, "", "network", "forget", "alice", "allow tcp ask.example.org:443 public")

	id, done = ask("two.example.org")
	feed(t, "never\n", "prompt", "answer", id)
	if <-done {
		t.Error("allowed")
	}
	shows(t, "deny tcp two.example.org:443", "network", "rules", "alice")
	fails(t, fault.ExitNotFound, "prompt list --all", "prompt", "answer", id, "once")
	shows(t, "the network, to connect to two.example.org:443", "prompt", "list", "--all")
}
