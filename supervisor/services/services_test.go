package services

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store/storetest"
)

func unchanged(_ context.Context, _ config.AgentID, text string) string { return text }

// What a program stores or passes on is cleaned of its agent's secrets. JSON stays JSON.
func TestClean(t *testing.T) {
	db, who := storetest.New(t, "alice", "bob")
	alice, bob := who[0], who[1]
	clean := func(_ context.Context, agent config.AgentID, text string) string {
		if agent != alice.Agent {
			return text
		}
		return strings.NewReplacer("canary", "[REDACTED:TOKEN]", "73519264", "[REDACTED:PIN]", `xx","yy`, "[REDACTED:ODD]").Replace(text)
	}
	logs := NewLogs(func(config.AgentID) bool { return true }, clean)
	topics, memory, tasks := NewTopics(db, clean), NewMemory(db, clean), NewTasks(db, clean, func(events.Event) {})
	logs.log(t, alice, "line canary")
	memory.store(t, alice, "fact canary")
	memory.store(t, bob, "fact canary")
	for _, payload := range []string{`{"a":"canary","n":1}`, `{"a":73519264}`, `{"a":"xx","yy":2}`, ""} {
		topics.emit(t, alice, "t", payload)
	}
	if err := topics.Emit(t.Context(), alice, "canary.new", json.RawMessage("{}")); fault.KindOf(err) != fault.InvalidArgs || strings.Contains(err.Error(), "canary") {
		t.Errorf("a type with a secret in it: %v", err)
	}
	id, err := tasks.Dispatch(t.Context(), alice, "task canary", "key canary")
	if err != nil {
		t.Fatal(err)
	}
	task, err := tasks.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{logs.list(t, alice)[0].Text, memory.all(t, alice)[0].Content, memory.all(t, bob)[0].Content, task.Text, task.Key}
	for e, err := range topics.Read(t.Context(), bridge.EventFilter{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Payload))
	}
	want := []string{
		"line [REDACTED:TOKEN]", "fact [REDACTED:TOKEN]", "fact canary", "task [REDACTED:TOKEN]", "key [REDACTED:TOKEN]",
		`{"a":"[REDACTED:TOKEN]","n":1}`, `"{\"a\":[REDACTED:PIN]}"`, `"{\"a\":\"[REDACTED:ODD]\":2}"`, "{}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
