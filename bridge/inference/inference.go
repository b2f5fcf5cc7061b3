// Package inference sends agents' chats to an OpenAI-compatible endpoint and enforces their daily limits.
package inference

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

const (
	// patience bounds a whole chat. It is shorter than the bridge's RequestTimeout, so that the
	// error names the endpoint.
	patience = 14 * time.Minute
	// maxAnswer bounds an answer. It is ten times the longest that models give.
	maxAnswer = 4 << 20
)

// Options configures a service.
type Options struct {
	// Settings returns the current settings; it is called for each chat.
	Settings func() config.Inference
	// Key returns the endpoint's API key. If it fails with secrets.Missing, no key is sent: local
	// endpoints often need none.
	Key func(context.Context) (secrets.Value, error)
	// MayInfer reports whether a plugin's recipe lets it ask models, and whether the agent has the plugin. A name that
	// is not an installed plugin counts as the agent itself. It may be nil.
	MayInfer func(agent config.AgentID, plugin config.PluginID) (may, installed bool)
}

// Service answers chats. It is a bridge.Inference.
type Service struct {
	options Options
	http    *http.Client

	mu   sync.Mutex
	days map[config.AgentID]*day
}

// New returns a service.
func New(o Options) *Service {
	transport := http.DefaultTransport.(*http.Transport).Clone() // uses the proxies from the environment
	return &Service{
		options: o,
		http: &http.Client{
			Transport: transport,
			// A redirect would send the key to an address that the user did not choose.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		days: map[config.AgentID]*day{},
	}
}

// Close closes idle connections.
func (s *Service) Close() { s.http.CloseIdleConnections() }

const op = "ask the model"

// Chat implements bridge.Inference.
func (s *Service) Chat(ctx context.Context, who bridge.Caller, chat bridge.Chat, tell func(string) error) (string, error) {
	if err := s.permit(who); err != nil {
		return "", err
	}
	settings := s.options.Settings()
	q, err := s.question(ctx, settings, chat, tell != nil)
	if err != nil {
		return "", err
	}
	day := s.day(who.Agent)
	if err := day.begin(settings); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := &answer{question: q, tell: tell}
	defer func() { day.spend(a.tokens()) }()
	if err := s.ask(ctx, a); err != nil {
		if cause := ctx.Err(); cause != nil {
			return "", fault.Wrap(op, string(q.model), cause)
		}
		return "", err
	}
	return a.text.String(), nil
}

// permit refuses a plugin whose recipe does not let it ask models.
func (s *Service) permit(who bridge.Caller) error {
	if s.options.MayInfer == nil || who.Plugin == "" {
		return nil
	}
	if may, installed := s.options.MayInfer(who.Agent, who.Plugin); may || !installed {
		return nil
	}
	return fault.New(fault.Rejected, op, "", errors.New("the plugin "+string(who.Plugin)+" may not")).
		Advise(`Set "inference": true in "permissions" of the plugin's recipe.`)
}

// question is a chat with its endpoint, model and key.
type question struct {
	url      string
	model    config.ModelName
	key      secrets.Value // zero if the endpoint needs none
	messages []bridge.ChatMessage
	stream   bool
}

// usual is the name by which programs ask for the model of the settings.
const usual = "default"

func (s *Service) question(ctx context.Context, settings config.Inference, chat bridge.Chat, stream bool) (question, error) {
	q := question{url: string(settings.BaseURL) + "/chat/completions", model: settings.Model, messages: chat.Messages, stream: stream}
	if settings.BaseURL == "" {
		return question{}, fault.Newf(fault.Unavailable, op, "", "this host has no inference endpoint").
			Advise("A person can set one: osaurus-sandbox config set inference.baseURL=http://127.0.0.1:1337/v1 inference.model=NAME")
	}
	if name := cmp.Or(chat.Model, usual); name != usual {
		var err error
		if q.model, err = config.ParseModelName(name); err != nil {
			return question{}, err
		}
	}
	if q.model == "" {
		return question{}, fault.Newf(fault.Unavailable, op, "", "this host has no default model").
			Advise("Name one, or ask a person to set one: osaurus-sandbox config set inference.model=NAME")
	}
	key, err := s.options.Key(ctx)
	if err != nil && !errors.Is(err, secrets.Missing) {
		return question{}, fault.Newf(fault.Unavailable, op, string(q.model), "the host cannot read the endpoint's key").
			Advise("A person can see why: osaurus-sandbox doctor")
	}
	q.key = key
	return q, nil
}
