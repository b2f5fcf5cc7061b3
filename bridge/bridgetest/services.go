package bridgetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/inference"
	"osaurus-sandbox/bridge/inference/inferencetest"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// Services has an in-memory service for every route. Inference is the real service with a test
// endpoint.
type Services struct {
	Endpoint *inferencetest.Endpoint
	models   *inference.Service

	mu     sync.Mutex
	values map[string]string // secrets and settings
	facts  []bridge.Fact
	told   []string
}

func newServices(t testing.TB) *Services {
	s := &Services{Endpoint: new(inferencetest.Endpoint), values: map[string]string{}}
	server := httptest.NewServer(s.Endpoint)
	s.models = inference.New(inference.Options{
		Settings: func() config.Inference {
			return config.Inference{BaseURL: config.InferenceURL(server.URL + "/v1"), Model: inferencetest.Echo}
		},
		Key: func(context.Context) (secrets.Value, error) { return secrets.ParseValue(inferencetest.Key) },
	})
	t.Cleanup(func() {
		s.models.Close()
		server.Close()
	})
	return s
}

func (s *Services) all() bridge.Services {
	return bridge.Services{
		Secrets: safe{s}, Config: settings{s}, Inference: s.models, Tasks: tasks{s}, Memory: memory{s}, Events: topics{s}, Plugins: plugins{s}, Log: lines{s},
	}
}

// SetSecret sets a secret of an agent's plugin.
func (s *Services) SetSecret(agent config.AgentName, plugin config.PluginID, name config.SecretName, value string) {
	s.set(bridge.Caller{Name: agent, Plugin: plugin}, "secret", string(name), value)
}

// Told returns the calls so far, one line each: agent, action and arguments.
func (s *Services) Told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func (s *Services) tell(who bridge.Caller, what string, how ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf("%s %s %s", who.Name, what, strings.Join(how, " ")))
}

func (s *Services) set(who bridge.Caller, what, name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[fmt.Sprint(who.Name, "/", who.Plugin, "/", what, "/", name)] = value
}

func (s *Services) get(who bridge.Caller, what, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[fmt.Sprint(who.Name, "/", who.Plugin, "/", what, "/", name)]
	if !ok {
		return "", fault.Newf(fault.NotFound, "get "+what, name, "there is none").Advise("Set it first.")
	}
	return v, nil
}

type (
	safe     struct{ *Services }
	settings struct{ *Services }
	tasks    struct{ *Services }
	memory   struct{ *Services }
	topics   struct{ *Services }
	plugins  struct{ *Services }
	lines    struct{ *Services }
)

func (s safe) Get(_ context.Context, who bridge.Caller, name config.SecretName) (secrets.Value, error) {
	v, err := s.get(who, "secret", string(name))
	if err != nil {
		return secrets.Value{}, err
	}
	return secrets.ParseValue(v)
}

func (s settings) Get(_ context.Context, who bridge.Caller, key bridge.ConfigKey) (string, error) {
	return s.get(who, "config", string(key))
}

func (s settings) Set(_ context.Context, who bridge.Caller, key bridge.ConfigKey, value string) error {
	s.set(who, "config", string(key), value)
	return nil
}

func (s tasks) Dispatch(_ context.Context, who bridge.Caller, text, sessionKey string) (bridge.TaskID, error) {
	s.tell(who, "dispatch", text, sessionKey)
	return "3B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", nil
}

func (s memory) Query(_ context.Context, _ bridge.Caller, text string) ([]bridge.Fact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.facts), func(f bridge.Fact) bool { return !strings.Contains(f.Content, text) }), nil
}

func (s memory) Store(_ context.Context, _ bridge.Caller, content string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = append(s.facts, bridge.Fact{Content: content, Salience: 0.7, CreatedAt: time.Unix(1_700_000_000, 0).UTC()})
	return nil
}

func (s topics) Emit(_ context.Context, who bridge.Caller, topic bridge.Topic, payload json.RawMessage) error {
	s.tell(who, "emit", string(topic), string(payload))
	return nil
}

// Installed returns false: no agent has a plugin.
func (plugins) Installed(config.AgentID, config.PluginID) bool { return false }

func (s plugins) Create(_ context.Context, who bridge.Caller, recipe json.RawMessage) (bridge.Created, error) {
	var in struct{ Name string }
	if err := json.Unmarshal(recipe, &in); err != nil || in.Name == "" {
		return bridge.Created{}, fault.New(fault.InvalidArgs, "read recipe", "name", nil)
	}
	s.tell(who, "create", in.Name)
	return bridge.Created{Status: "installed", ID: config.PluginID(in.Name), Name: in.Name, Tools: []bridge.CreatedTool{}}, nil
}

func (s lines) Append(_ context.Context, who bridge.Caller, level bridge.Level, message string) error {
	s.tell(who, "log", string(level), message)
	return nil
}
