package vault_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
)

// heard are services that note what they were told.
type heard struct{ texts []string }

func (h *heard) note(text string) error {
	h.texts = append(h.texts, text)
	return nil
}

func (h *heard) Append(_ context.Context, _ bridge.Caller, _ bridge.Level, message string) error {
	return h.note(message)
}
func (h *heard) Emit(_ context.Context, _ bridge.Caller, _ bridge.Topic, payload json.RawMessage) error {
	return h.note(string(payload))
}
func (h *heard) Dispatch(_ context.Context, _ bridge.Caller, text, key string) (bridge.TaskID, error) {
	return "", h.note(text + " " + key)
}
func (h *heard) Store(_ context.Context, _ bridge.Caller, content string) error {
	return h.note(content)
}
func (*heard) Query(context.Context, bridge.Caller, string) ([]bridge.Fact, error) { return nil, nil }

// What a program tells is kept without its agent's secrets, and what is JSON
// stays JSON.
func TestCleaned(t *testing.T) {
	r := newRig(t, nil)
	r.set(key("", "TOKEN"), canary)
	r.set(key("", "PIN"), "73519264")
	r.set(key("", "ODD"), `xx","yy`)
	to := new(heard)
	s := r.Cleaned(bridge.Services{Log: to, Events: to, Tasks: to, Memory: to})
	who, ctx := bridge.Caller{Agent: alice, Name: "alice"}, t.Context()
	_, err := s.Tasks.Dispatch(ctx, who, "task "+canary, "key "+canary)
	for _, err := range []error{
		err, s.Log.Append(ctx, who, bridge.Info, "line "+canary), s.Memory.Store(ctx, who, "fact "+canary),
		s.Events.Emit(ctx, who, "t", json.RawMessage(`{"a":"`+canary+`","n":1}`)),
		s.Events.Emit(ctx, who, "t", json.RawMessage(`{"a":73519264}`)),
		s.Events.Emit(ctx, who, "t", json.RawMessage(`{"a":"xx","yy":2}`)),
		s.Events.Emit(ctx, who, "t", nil),
		s.Memory.Store(ctx, bridge.Caller{Agent: bob}, "fact "+canary),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := s.Events.Emit(ctx, who, bridge.Topic(canary+".new"), nil); fault.KindOf(err) != fault.InvalidArgs || strings.Contains(err.Error(), canary) {
		t.Errorf("a type with a value in it: %v", err)
	}
	want := []string{
		"task [REDACTED:TOKEN] key [REDACTED:TOKEN]", "line [REDACTED:TOKEN]", "fact [REDACTED:TOKEN]", `{"a":"[REDACTED:TOKEN]","n":1}`,
		`"{\"a\":[REDACTED:PIN]}"`, `"{\"a\":\"[REDACTED:ODD]\":2}"`, "", "fact " + canary,
	}
	if !slices.Equal(to.texts, want) {
		t.Errorf("%q, want %q", to.texts, want)
	}
}
