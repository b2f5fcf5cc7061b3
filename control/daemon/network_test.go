package daemon_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/egress"
)

// networked runs a daemon whose gateway is the test: it asks and records itself.
func networked(t *testing.T) (*control.Client, *control.Server, config.AgentID) {
	t.Helper()
	var server *control.Server
	client, _ := serve(t, daemon.Options{Ready: func(s *control.Server) { server = s }})
	server.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
	r, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: "alice", Settings: map[string]string{"network": "allow"}})
	if err != nil {
		t.Fatal(err)
	}
	return client, server, config.AgentID(r.Agent.Id)
}

func target(name string) policy.Target {
	return policy.Target{Protocol: policy.TCP, Name: name, Addr: netip.MustParseAddr("93.184.216.34"), Port: 443}
}

// record decides about a flow of an agent and records it, as the gateway does.
func record(s *control.Server, who network.Subject, to policy.Target) {
	s.Flows.Record(network.Flow{Subject: who, Target: to, Decision: s.Policies.Of(who).Decide(to, time.Now()), Sent: 7})
}

func TestNetworkFlows(t *testing.T) {
	client, server, alice := networked(t)
	who := network.Subject{Agent: alice}
	set := func(key, value string) {
		t.Helper()
		if _, err := client.Agents.Set(t.Context(), &controlpb.SetAgentRequest{Agent: "alice", Settings: map[string]string{key: value}}); err != nil {
			t.Fatal(err)
		}
	}
	record(server, who, target("refused.example.org"))
	set("network.rules+", "allow api.example.org:443") // counts at once
	record(server, who, target("api.example.org"))
	record(server, network.Subject{Agent: alice, Plugin: "rss"}, policy.Target{Protocol: policy.UDP, Name: "b\xffd", Addr: netip.MustParseAddr("10.0.0.1"), Port: 53})
	list := func(r *controlpb.NetworkFlowsRequest) (texts []string) {
		t.Helper()
		for m, err := range control.Messages(client.Network.Flows(t.Context(), r)) {
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, fmt.Sprintf("%d %s %s:%d %s %s", m.Flow.Seq, m.Flow.Verdict, m.Flow.Name, m.Flow.Port, m.Flow.Rule, m.Flow.Plugin))
		}
		return texts
	}
	want := "[1 refused refused.example.org:443   2 allowed api.example.org:443 allow api.example.org:443  3 refused b\uFFFDd:53  rss]"
	if got := fmt.Sprint(list(&controlpb.NetworkFlowsRequest{Agent: "alice"})); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := list(&controlpb.NetworkFlowsRequest{Agent: string(alice), Refused: true}); len(got) != 2 {
		t.Errorf("refused: %q", got)
	}
	if got := list(&controlpb.NetworkFlowsRequest{Agent: "@guest"}); len(got) != 0 {
		t.Errorf("the guest: %q", got)
	}

	ctx, leave := context.WithTimeout(t.Context(), limit)
	defer leave()
	seen := 0
	for m, err := range control.Messages(client.Network.Flows(ctx, &controlpb.NetworkFlowsRequest{Agent: "alice", Follow: true})) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 3 {
			record(server, who, target("later.example.org"))
		} else if seen == 4 {
			if m.Flow.Name != "later.example.org" || m.Flow.Sent != 7 || m.Flow.Ended == nil {
				t.Errorf("%v", m.Flow)
			}
			break
		}
	}

	learned, err := client.Network.Learn(t.Context(), &controlpb.LearnNetworkRequest{Agent: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, s := range learned.Suggestions {
		rules = append(rules, s.Rule)
	}
	if got := strings.Join(rules, ", "); !strings.Contains(got, "allow tcp refused.example.org:443") || strings.Contains(got, "api.example.org") {
		t.Errorf("%q", got)
	}

	// A refused flow is an event.
	found := false
	for m, err := range control.Messages(client.Events(t.Context(), &controlpb.EventsRequest{})) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || m.Kind == string(egress.FlowRefused) && m.Fields["destination"] == "refused.example.org:443" && m.Fields["agent"] == "alice"
	}
	if !found {
		t.Error("there is no event")
	}
	if _, err := client.Agents.Delete(t.Context(), &controlpb.DeleteAgentRequest{Agent: "alice"}); err != nil {
		t.Fatal(err)
	}
	for _, err := range control.Messages(client.Network.Flows(t.Context(), &controlpb.NetworkFlowsRequest{Agent: string(alice)})) {
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("the flows of a deleted agent: %v", err)
		}
	}
}

func TestNetworkExplain(t *testing.T) {
	client, _, _ := networked(t)
	if _, err := client.SetConfig(t.Context(), &controlpb.SetConfigRequest{Settings: map[string]string{"networkRules": "deny *.example.net"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Agents.Set(t.Context(), &controlpb.SetAgentRequest{Agent: "alice", Settings: map[string]string{"network.rules": "allow api.example.org:443"}}); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"https://api.example.org/v1": "allow, allow api.example.org:443 from agent",
		"www.example.net":            "deny, deny *.example.net from home",
		"other.example.org":          "deny,  from ",
	} {
		r, err := client.Network.Explain(t.Context(), &controlpb.ExplainNetworkRequest{Agent: "alice", Destination: to})
		if got := fmt.Sprintf("%s, %s from %s", r.GetAction(), r.GetRule(), r.GetSource()); err != nil || got != want || r.Reason == "" || r.Mode != "allow" {
			t.Errorf("%s: %q, want %q: %v, %v", to, got, want, r, err)
		}
	}
	if _, err := client.Network.Explain(t.Context(), &controlpb.ExplainNetworkRequest{Agent: "alice", Destination: "no host"}); fault.KindOf(err) != fault.InvalidArgs {
		t.Error(err)
	}
	r, err := client.Network.Rules(t.Context(), &controlpb.NetworkRulesRequest{Agent: "alice"})
	if err != nil || fmt.Sprint(len(r.Rules), r.Rules[0].Source, r.Rules[1].Source, r.Mode) != "2homeagentallow" {
		t.Errorf("%v, %v", r, err)
	}
}

// A person answers a question about the network over the API, once.
func TestNetworkPrompt(t *testing.T) {
	client, server, alice := networked(t)
	asker := egress.NewAsker(egress.AskOptions{Policies: server.Policies, Prompts: server.Prompts})
	defer asker.Close()
	done := make(chan bool, 1)
	go func() { done <- asker.Ask(t.Context(), network.Subject{Agent: alice}, target("api.example.org")) }()
	var p *controlpb.Prompt
	for m, err := range control.Messages(client.Prompts.Watch(t.Context(), &controlpb.WatchPromptsRequest{})) {
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Prompts) > 0 {
			p = m.Prompts[0]
			break
		}
	}
	if p.GetKind() != "network" || p.What != "api.example.org:443 (93.184.216.34)" || p.Agent != "alice" || p.Secret != "" {
		t.Fatalf("%v", p)
	}
	for _, wrong := range []*controlpb.AnswerPromptRequest{{Id: p.Id, Choice: "perhaps"}, {Id: p.Id, Value: "a secret"}, {Id: p.Id}} {
		if _, err := client.Prompts.Answer(t.Context(), wrong); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	r, err := client.Prompts.Answer(t.Context(), &controlpb.AnswerPromptRequest{Id: p.Id, Choice: "always"})
	if err != nil || !r.Taken || r.Prompt.State != "answered" || r.Prompt.Choice != "always" || !<-done {
		t.Errorf("%v, %v", r, err)
	}
	if again, err := client.Prompts.Answer(t.Context(), &controlpb.AnswerPromptRequest{Id: p.Id, Choice: "never"}); err != nil || again.Taken || again.Prompt.Choice != "always" {
		t.Errorf("a second answer: %v, %v", again, err)
	}
	agent, err := client.Agents.Show(t.Context(), &controlpb.ShowAgentRequest{Agent: "alice"})
	if err != nil || !strings.Contains(fmt.Sprint(agent.Agent.Settings), "allow tcp api.example.org:443") {
		t.Errorf("%v, %v", agent, err)
	}
	text := ""
	for m, err := range control.Messages(client.ListAudit(t.Context(), &controlpb.ListAuditRequest{})) {
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintln(m.Agent, m.Action, m.Subject, m.Detail)
	}
	if !strings.Contains(text, "alice prompt.answer "+p.Id+": api.example.org:443 (93.184.216.34) always\n") {
		t.Errorf("%s", text)
	}
}
