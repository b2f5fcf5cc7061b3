package inference_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/inference"
	"osaurus-sandbox/bridge/inference/inferencetest"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
)

var alice = bridge.Caller{Agent: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "alice", User: "agent-alice"}

// world is a service and its endpoint.
type world struct {
	*inference.Service
	endpoint *inferencetest.Endpoint
	settings config.Inference
	key      string
	keyErr   error
	permits  permits
}

// permits says of the installed plugins whether each may use inference.
type permits map[config.PluginID]bool

func (p permits) MayInfer(_ config.AgentID, plugin config.PluginID) (may, installed bool) {
	may, installed = p[plugin]
	return may, installed
}

func newWorld(t *testing.T) *world {
	w := &world{endpoint: new(inferencetest.Endpoint), key: inferencetest.Key, permits: permits{}}
	server := httptest.NewServer(w.endpoint)
	w.settings = config.Inference{BaseURL: config.InferenceURL(server.URL + "/v1"), Model: inferencetest.Echo}
	w.Service = inference.New(inference.Options{
		Settings: func() config.Inference { return w.settings },
		Key: func(context.Context) (secrets.Value, error) {
			if w.keyErr != nil {
				return secrets.Value{}, w.keyErr
			}
			return secrets.ParseValue(w.key)
		},
		MayInfer: w.permits.MayInfer,
	})
	t.Cleanup(func() {
		w.Close()
		server.Close()
	})
	return w
}

func said(text string, model string) bridge.Chat {
	return bridge.Chat{Model: model, Messages: []bridge.ChatMessage{{Role: "system", Content: "be brief"}, {Role: "user", Content: text}}}
}

func TestChat(t *testing.T) {
	w := newWorld(t)
	const text = "one two  three\n✓ \"four\""
	for _, model := range []string{"", "default", inferencetest.Echo, inferencetest.Silent} {
		got, err := w.Chat(t.Context(), alice, said(text, model), nil)
		if err != nil || got != text {
			t.Errorf("asked %q at once: %q, %v", model, got, err)
		}
		var parts []string
		got, err = w.Chat(t.Context(), alice, said(text, model), func(part string) error {
			parts = append(parts, part)
			return nil
		})
		if err != nil || got != text || len(parts) < 3 || strings.Join(parts, "") != text {
			t.Errorf("asked %q in parts: %q, %v, in %q", model, got, err, parts)
		}
	}
	asked := w.endpoint.Asked()
	if q := asked[0]; q.Model != inferencetest.Echo || q.Stream || len(q.Messages) != 2 || q.Messages[0].Role != "system" {
		t.Errorf("the endpoint was asked %+v", q)
	}
	if q := asked[1]; !q.Stream || !q.StreamOptions.IncludeUsage {
		t.Errorf("the endpoint was asked %+v", q)
	}
}

// TestFailures checks the errors for what endpoints may do. None contains the key.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		model string
		kind  fault.Kind
		text  string
	}{
		{"status-400", fault.InvalidArgs, "so it is: 400"},
		{"status-401", fault.Unavailable, "does not accept the host's key"},
		{"status-403", fault.Unavailable, "does not accept the host's key"},
		{"status-429", fault.Rejected, "limit of the endpoint"},
		{"status-500", fault.Execution, "so it is: 500"},
		{"status-503", fault.Unavailable, "so it is: 503"},
		{"status-504", fault.Timeout, "so it is: 504"},
		{"nobody", fault.NotFound, "`nobody` does not exist"},
		{inferencetest.Cut, fault.Execution, "broke off"},
		{inferencetest.Large, fault.Execution, "too long"},
		{inferencetest.Garbled, fault.Execution, "format"},
		{inferencetest.Moved, fault.Execution, "307"},
		{inferencetest.Telling, fault.InvalidArgs, secrets.Redacted},
		{"-x", fault.InvalidArgs, "not allowed"},
	} {
		for _, tell := range []func(string) error{nil, func(string) error { return nil }} {
			got, err := w.Chat(t.Context(), alice, said("hello there", tc.model), tell)
			if err == nil || got != "" || fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s (in parts: %v): %q, %v (%s), want %s with %q", tc.model, tell != nil, got, err, fault.KindOf(err), tc.kind, tc.text)
			}
			if strings.Contains(err.Error()+fault.AdviceOf(err), inferencetest.Key) {
				t.Errorf("%s: the key is in %v", tc.model, err)
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%s: %q is more than a line", tc.model, err)
			}
		}
	}
	_, err := w.Chat(t.Context(), alice, said("hello there", "status-429"), nil)
	if l, ok := errors.AsType[*bridge.Limited](err); !ok || l.After != 7*time.Second {
		t.Errorf("when to try again is lost: %v", err)
	}
	var parts []string
	_, err = w.Chat(t.Context(), alice, said("hello there", inferencetest.Sorry), func(part string) error {
		parts = append(parts, part)
		return nil
	})
	if !strings.Contains(err.Error(), "it grew too hot") || len(parts) != 2 {
		t.Errorf("after %q: %v", parts, err)
	}
}

func TestNothingConfigured(t *testing.T) {
	w := newWorld(t)
	check := func(what string, want string) {
		t.Helper()
		_, err := w.Chat(t.Context(), alice, said("hello", ""), nil)
		if fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, advice %q", what, err, fault.AdviceOf(err))
		}
	}
	w.key = "sk-wrong-wrong"
	check("with the wrong key", "does not accept")
	w.keyErr = secrets.Locked.Fault("get", "the keyring at /home/me", nil)
	check("with a store that is locked", "cannot read the endpoint's key")
	w.keyErr = secrets.NoSuch("get", secrets.Inference())
	check("without a key", "does not accept")
	w.settings.Model = ""
	check("without a model", "no default model")
	w.settings.BaseURL = ""
	check("without an endpoint", "no inference endpoint")
	w.settings = config.Inference{BaseURL: "http://127.0.0.1:1/v1", Model: "echo"}
	check("with an endpoint that is not there", "cannot be reached")
	if n := len(w.endpoint.Asked()); n != 0 {
		t.Errorf("the endpoint was asked %d times", n)
	}
}

// TestLeaving checks that a caller who leaves ends the endpoint's answer.
func TestLeaving(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, tc := range []struct{ name, model string }{{"in the middle", inferencetest.Endless}, {"before the first word", inferencetest.Slow}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if tc.model == inferencetest.Slow {
				go func() {
					for len(w.endpoint.Asked()) == 0 && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					leave()
				}()
			}
			n := 0
			_, err := w.Chat(ctx, alice, said("on and on", tc.model), func(string) error {
				if n++; n == 5 {
					leave()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
			timetest.Eventually(t, "the endpoint ends", func() bool { return w.endpoint.Left.Load() > 0 })
			words := w.endpoint.Words.Load()
			time.Sleep(20 * time.Millisecond)
			if w.endpoint.Words.Load() != words {
				t.Error("the endpoint still talks")
			}
		})
	}
	t.Run("by an error", func(t *testing.T) {
		w := newWorld(t)
		full := errors.New("the pipe is closed")
		if _, err := w.Chat(t.Context(), alice, said("on and on", inferencetest.Endless), func(string) error { return full }); !errors.Is(err, full) {
			t.Errorf("it ended with %v", err)
		}
	})
	timetest.Eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

func TestDay(t *testing.T) {
	w := newWorld(t)
	bob := bridge.Caller{Agent: "1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "bob"}
	ask := func(who bridge.Caller, text, model string) error {
		_, err := w.Chat(t.Context(), who, said(text, model), nil)
		return err
	}
	over := func(what string, err error) {
		t.Helper()
		l, ok := errors.AsType[*bridge.Limited](err)
		if !ok || fault.KindOf(err) != fault.Rejected || l.After <= 22*time.Hour || l.After > 24*time.Hour || !strings.Contains(err.Error(), what) {
			t.Errorf("over %s: %v", what, err)
		}
	}
	w.settings.RequestsPerDay = 3
	for range 3 {
		if err := ask(alice, "hello", ""); err != nil {
			t.Fatal(err)
		}
	}
	over("3 chats a day", ask(alice, "hello", ""))
	if err := ask(bob, "hello", ""); err != nil {
		t.Errorf("bob pays for alice: %v", err)
	}
	w.settings.RequestsPerDay = 0
	w.settings.TokensPerDay = 20 // each hello counts 2, as question and as answer
	if err := ask(alice, strings.Repeat("word ", 20), ""); err != nil {
		t.Errorf("what began within the limit: %v", err)
	}
	over("20 tokens a day", ask(alice, "hello", ""))
	w.settings.TokensPerDay = 0
	if err := ask(alice, "hello", ""); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	// A caller who leaves before the endpoint reports the usage is charged.
	w.settings.TokensPerDay = 1000
	if err := ask(bob, strings.Repeat("x", 4000), inferencetest.Silent); err != nil {
		t.Fatal(err)
	}
	over("1000 tokens a day", ask(bob, "hello", ""))
	// So is one who leaves before the answer begins, but not one who is refused.
	carol := bridge.Caller{Agent: "2B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "carol"}
	if err := ask(carol, strings.Repeat("x", 4000), "status-400"); err == nil {
		t.Fatal("it was not refused")
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }})
	if _, err := w.Chat(ctx, carol, said(strings.Repeat("x", 4000), inferencetest.Slow), nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	over("1000 tokens a day", ask(carol, "hello", ""))
	if slices.ContainsFunc(w.endpoint.Asked(), func(q inferencetest.Question) bool { return q.Model == "" }) {
		t.Error("a chat without a model")
	}
}

func TestRedirectShowsNobodyTheKey(t *testing.T) {
	shown := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown <- r.Header.Get("Authorization") }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	w := newWorld(t)
	w.settings.BaseURL = config.InferenceURL(first.URL)
	if _, err := w.Chat(t.Context(), alice, said("hello", ""), nil); err == nil {
		t.Error("it was followed")
	}
	select {
	case header := <-shown:
		t.Errorf("the other was shown %q", header)
	default:
	}
}

func TestPermissions(t *testing.T) {
	w := newWorld(t)
	w.permits["may"], w.permits["may-not"] = true, false
	for plugin, kind := range map[config.PluginID]fault.Kind{"": "", "may": "", "no-plugin": "", "may-not": fault.Rejected} {
		who := alice
		who.Plugin = plugin
		_, err := w.Chat(t.Context(), who, said("hello", ""), nil)
		if (err == nil) != (kind == "") || err != nil && fault.KindOf(err) != kind {
			t.Errorf("plugin %q: %v", plugin, err)
		}
	}
	if n := len(w.endpoint.Asked()); n != 3 {
		t.Errorf("the endpoint was asked %d times", n)
	}
}
