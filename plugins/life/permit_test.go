package life

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

type heard []bridge.Topic

func (h *heard) Emit(_ context.Context, _ bridge.Caller, topic bridge.Topic, _ json.RawMessage) error {
	*h = append(*h, topic)
	return nil
}

// A plugin has the permissions that its recipe declares. Other names count as the agent itself.
func TestPermits(t *testing.T) {
	recipes := map[config.PluginID]plugins.Recipe{
		"loud":   {Secrets: []config.SecretName{"TOKEN"}, Permissions: plugins.Permissions{Inference: true}, Events: plugins.Events{Emit: []bridge.Topics{"rss.*", "done"}}},
		"silent": {},
	}
	p := Permits{Recipe: func(agent config.AgentID, plugin config.PluginID) (plugins.Recipe, bool) {
		r, ok := recipes[plugin]
		return r, ok && agent == alice.ID
	}}
	var to heard
	events := p.Emitting(&to)
	const bob config.AgentID = "1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"
	for name, tc := range map[string]struct {
		agent     config.AgentID
		plugin    config.PluginID
		installed bool
		secrets   []config.SecretName
		infers    bool
		emits     map[bridge.Topic]bool
	}{
		"loud":            {alice.ID, "loud", true, []config.SecretName{"TOKEN"}, true, map[bridge.Topic]bool{"rss.new": true, "done": true, "done.not": false, "rs": false}},
		"silent":          {alice.ID, "silent", true, nil, false, map[bridge.Topic]bool{"rss.new": false, "silent": false}},
		"the agent":       {alice.ID, "", false, nil, false, map[bridge.Topic]bool{"rss.new": true}},
		"a name space":    {alice.ID, "notes", false, nil, false, map[bridge.Topic]bool{"rss.new": true}},
		"another agent's": {bob, "silent", false, nil, false, map[bridge.Topic]bool{"rss.new": true}},
	} {
		t.Run(name, func(t *testing.T) {
			declared, has := p.Declared(tc.agent, tc.plugin)
			infers, there := p.MayInfer(tc.agent, tc.plugin)
			if !slices.Equal(declared, tc.secrets) || infers != tc.infers || has != tc.installed || there != has {
				t.Errorf("%v %v %v", declared, infers, has)
			}
			for topic, may := range tc.emits {
				before := len(to)
				err := events.Emit(t.Context(), bridge.Caller{Agent: tc.agent, Plugin: tc.plugin}, topic, nil)
				if may != (err == nil) || may != (len(to) == before+1) || !may && fault.KindOf(err) != fault.Rejected {
					t.Errorf("%s: %v", topic, err)
				}
			}
		})
	}
}

// A plugin reaches what its recipe says, and nothing if that is not known.
func TestHosts(t *testing.T) {
	recipes := map[config.PluginID]plugins.Network{"all": plugins.NetworkOutbound, "none": plugins.NetworkNone, "unsaid": plugins.NetworkUnsaid, "some": "a.example.org,b.example.org"}
	p := Permits{Recipe: func(_ config.AgentID, plugin config.PluginID) (plugins.Recipe, bool) {
		network, ok := recipes[plugin]
		return plugins.Recipe{Permissions: plugins.Permissions{Network: network}}, ok
	}}
	for plugin, want := range map[config.PluginID][]string{"all": nil, "none": {}, "unsaid": {}, "some": {"a.example.org", "b.example.org"}, "missing": {}} {
		if got := p.Hosts(alice.ID, plugin); (got == nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("%s: %q", plugin, got)
		}
	}
}
