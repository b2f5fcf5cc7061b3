package control

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network"
	"osaurus-sandbox/network/policy"
	"osaurus-sandbox/supervisor/egress"
)

// guestName stands for the guest's root in the log of flows. No agent can have it.
const guestName = "@guest"

// networkService implements the service Network.
type networkService struct{ service }

// Flows sends the flows of an agent.
func (s networkService) Flows(ctx context.Context, r *controlpb.NetworkFlowsRequest, stream *connect.ServerStream[controlpb.NetworkFlowsResponse]) error {
	var id config.AgentID
	if r.Agent != guestName {
		agent, err := s.Agents.Get(r.Agent)
		if err != nil {
			return err
		}
		id = agent.ID
	}
	for f, err := range s.Backing.Flows.Read(ctx, id, r.Follow) {
		if err != nil {
			return err
		}
		if v := egress.VerdictOf(f.Flow); r.Refused && v != egress.Refused && v != egress.Observed {
			continue
		}
		if err := stream.Send(&controlpb.NetworkFlowsResponse{Flow: flowProto(f)}); err != nil {
			return err
		}
	}
	return nil
}

func flowProto(f egress.Flow) *controlpb.NetworkFlow {
	t, destination := f.Target, egress.Destination(f.Target)
	if t.Protocol == "" {
		destination = "dns " + destination
	}
	p := &controlpb.NetworkFlow{
		Seq: int64(f.Seq), Plugin: string(f.Subject.Plugin), Began: moment(f.Began), Ended: moment(f.Ended),
		Protocol: string(t.Protocol), Name: text(t.Name), Address: addressText(t.Addr), Port: uint32(t.Port), Method: text(t.Method), Path: text(t.Path),
		Verdict: string(egress.VerdictOf(f.Flow)), Reason: text(f.Decision.Reason), Error: text(f.Error), Sent: f.Sent, Received: f.Received, Destination: text(destination),
	}
	if f.Decision.Rule != nil {
		p.Rule = f.Decision.Rule.String()
	}
	return p
}

// text returns a text of the guest as UTF-8, which protobuf needs.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// Explain says what would happen to a flow.
func (s networkService) Explain(ctx context.Context, r *controlpb.ExplainNetworkRequest) (*controlpb.ExplainNetworkResponse, error) {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return nil, err
	}
	target, err := egress.ParseTarget(r.Destination)
	if err != nil {
		return nil, err
	}
	plugin, err := optional(r.Plugin, config.ParsePluginID)
	if err != nil {
		return nil, err
	}
	if _, has := s.Plugins.Find(agent.ID, plugin); plugin != "" && !has {
		return nil, fault.Newf(fault.NotFound, "explain", string(plugin), "%s does not have this plugin", agent.Name).
			Advise("List its plugins: osaurus-sandbox plugin status " + string(agent.Name))
	}
	e := s.Policies.Explain(ctx, network.Subject{Agent: agent.ID, Plugin: plugin}, target, s.Lookup)
	answer := &controlpb.ExplainNetworkResponse{
		Action: string(e.Decision.Action), Observed: e.Decision.Observed, Mode: string(e.Mode), Destination: egress.Destination(e.Target),
		Address: addressText(e.Target.Addr), Addresses: protos(e.Addresses, addressText), Reason: e.Decision.Reason, Advice: e.Decision.Advice,
	}
	if rule := e.Decision.Rule; rule != nil {
		answer.Rule, answer.Source = rule.String(), string(e.Source)
	}
	return answer, nil
}

// Learn suggests rules for an agent.
func (s networkService) Learn(_ context.Context, r *controlpb.LearnNetworkRequest) (*controlpb.LearnNetworkResponse, error) {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return nil, err
	}
	list := s.Backing.Flows.Learn(agent.ID, s.Policies.Of(network.Subject{Agent: agent.ID}))
	return &controlpb.LearnNetworkResponse{Suggestions: protos(list, func(n policy.Suggestion) *controlpb.NetworkSuggestion {
		return &controlpb.NetworkSuggestion{
			Rule: n.Rule.String(), Flows: uint32(n.Count), First: moment(n.First), Last: moment(n.Last), Example: text(egress.Destination(n.Example)),
		}
	})}, nil
}

// Rules lists the rules that count for an agent.
func (s networkService) Rules(_ context.Context, r *controlpb.NetworkRulesRequest) (*controlpb.NetworkRulesResponse, error) {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &controlpb.NetworkRulesResponse{
		Mode: string(s.Policies.Of(network.Subject{Agent: agent.ID}).Mode), Observe: agent.Settings.NetworkObserve,
		Rules: protos(s.Policies.Rules(agent), func(r egress.Rule) *controlpb.NetworkRule {
			return &controlpb.NetworkRule{
				Rule: r.String(), Source: string(r.Source), Plugin: string(r.Plugin), Expired: r.Expired(now),
			}
		}),
	}, nil
}
