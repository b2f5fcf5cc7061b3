package control

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// GetConfig returns all settings.
func (s service) GetConfig(context.Context, *controlpb.GetConfigRequest) (*controlpb.GetConfigResponse, error) {
	return &controlpb.GetConfigResponse{File: s.Sandbox.Home().SettingsFile(), Settings: s.settings(config.Keys())}, nil
}

// SetConfig changes settings, all or none.
func (s service) SetConfig(ctx context.Context, r *controlpb.SetConfigRequest) (*controlpb.SetConfigResponse, error) {
	n := note{action: "config.set", subject: assignments(r.Settings), strict: true}
	changed, err := answered(ctx, s, n, func() ([]string, error) {
		if err := s.vacant(r.Settings); err != nil {
			return nil, err
		}
		return s.Sandbox.Set(r.Settings, callerOf(ctx).cause())
	})
	s.Policies.Refresh()
	return &controlpb.SetConfigResponse{Changed: s.settings(changed)}, err
}

const listenKey = "mcp.listen"

// vacant refuses an address for MCP on which another program listens.
func (s service) vacant(settings map[string]string) error {
	at, err := config.ParseLoopbackAddress(settings[listenKey])
	if err != nil {
		return nil // Set refuses it
	}
	return Vacant(s.Sandbox.Settings().MCP.Listen, at)
}

// Vacant refuses a new address for MCP on which another program listens. Otherwise only
// the log would say that the setting has no effect.
func Vacant(was, at config.LoopbackAddress) error {
	if at == "" || at == was {
		return nil
	}
	l, err := net.Listen("tcp", string(at))
	if err != nil {
		return fault.New(fault.Unavailable, "listen on", string(at), err).Advise("Choose another port for " + listenKey + ", or stop the program that uses that one.")
	}
	return l.Close()
}

// assignments returns settings as on a command line.
func assignments(settings map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		texts = append(texts, key+"="+settings[key])
	}
	return strings.Join(texts, " ")
}

// settings returns the settings with these keys.
func (s service) settings(keys []string) []*controlpb.Setting {
	return settingsProto(s.Sandbox.Settings(), keys, config.EffectOf)
}

// settingsProto converts the settings with these keys.
func settingsProto(of any, keys []string, effect func(string) config.Effect) []*controlpb.Setting {
	text, _ := json.Marshal(of) // settings are plain values
	var values map[string]json.RawMessage
	_ = json.Unmarshal(text, &values)
	return protos(keys, func(key string) *controlpb.Setting {
		return &controlpb.Setting{Key: key, Value: string(values[key]), Applies: string(effect(key))}
	})
}
