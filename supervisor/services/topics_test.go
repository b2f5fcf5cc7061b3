package services

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store/storetest"
)

func openTopics(t testing.TB) (topics *Topics, alice, bob bridge.Caller) {
	t.Helper()
	db, who := storetest.New(t, "alice", "bob")
	return NewTopics(db, unchanged), who[0], who[1]
}

func (t *Topics) emit(tb testing.TB, who bridge.Caller, topic bridge.Topic, payload string) {
	tb.Helper()
	if err := t.Emit(tb.Context(), who, topic, json.RawMessage(payload)); err != nil {
		tb.Fatal(err)
	}
}

// list formats the events of a filter: "topic payload", or "gap from-to".
func (t *Topics) list(tb testing.TB, f bridge.EventFilter) (list []string) {
	tb.Helper()
	for e, err := range t.Read(tb.Context(), f, false) {
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, eventText(e))
	}
	return list
}

func eventText(e bridge.Event) string {
	if e.Gap != nil {
		return fmt.Sprintf("gap %d-%d", e.Gap.From, e.Gap.To)
	}
	return fmt.Sprintf("%d %s %s", e.Seq, e.Topic, e.Payload)
}

func TestTopicScopes(t *testing.T) {
	topics, alice, bob := openTopics(t)
	before := time.Now()
	topics.emit(t, alice, "rss.new", ` {"n": [1,  2]} `)
	topics.emit(t, alice, "shared:news", `"for all"`)
	topics.emit(t, bob, "rss.new", ``)
	topics.emit(t, bob, "sharedish", `null`)
	for name, tc := range map[string]struct {
		filter bridge.EventFilter
		want   []string
	}{
		"alice":       {bridge.EventFilter{Agent: alice.Agent}, []string{`1 rss.new {"n":[1,2]}`, `2 shared:news "for all"`}},
		"bob":         {bridge.EventFilter{Agent: bob.Agent}, []string{`2 shared:news "for all"`, `3 rss.new {}`, `4 sharedish null`}},
		"all":         {bridge.EventFilter{}, []string{`1 rss.new {"n":[1,2]}`, `2 shared:news "for all"`, `3 rss.new {}`, `4 sharedish null`}},
		"after":       {bridge.EventFilter{Agent: bob.Agent, After: 3}, []string{`4 sharedish null`}},
		"a topic":     {bridge.EventFilter{Topics: []bridge.Topics{"rss.new"}}, []string{`1 rss.new {"n":[1,2]}`, `3 rss.new {}`}},
		"a beginning": {bridge.EventFilter{Agent: bob.Agent, Topics: []bridge.Topics{"shared:*"}}, []string{`2 shared:news "for all"`}},
		"two":         {bridge.EventFilter{Topics: []bridge.Topics{"sharedish", "shared:*"}}, []string{`2 shared:news "for all"`, `4 sharedish null`}},
	} {
		if got := topics.list(t, tc.filter); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	for e := range topics.Read(t.Context(), bridge.EventFilter{}, false) {
		if e.Agent != alice.Agent || e.Source != "sandbox:agent-alice" || e.Time.Before(before) || e.Time.After(time.Now()) {
			t.Errorf("%+v", e)
		}
		break
	}
	stranger := bridge.Caller{Agent: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"}
	for name, tc := range map[string]struct {
		filter bridge.EventFilter
		kind   fault.Kind
	}{
		"not yet": {bridge.EventFilter{After: 5}, fault.InvalidArgs}, "never": {bridge.EventFilter{After: -1}, fault.InvalidArgs},
		"nobody": {bridge.EventFilter{Agent: stranger.Agent}, fault.NotFound}, "too many topics": {bridge.EventFilter{Topics: make([]bridge.Topics, maxPatterns+1)}, fault.InvalidArgs},
	} {
		for _, err := range topics.Read(t.Context(), tc.filter, true) {
			if fault.KindOf(err) != tc.kind {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, bad := range []string{`{`, `{"a":1} {}`, `"` + strings.Repeat("x", MaxPayload) + `"`} {
		if err := topics.Emit(t.Context(), alice, "a", json.RawMessage(bad)); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%.20s: %v", bad, err)
		}
	}
	if err := topics.Emit(t.Context(), stranger, "a", nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a stranger: %v", err)
	}
}

// Each agent has its own limit. A reader that missed events gets a gap.
func TestTopicLimit(t *testing.T) {
	topics, alice, bob := openTopics(t)
	topics.keep = 3
	topics.emit(t, alice, "shared:a", "1") // 1
	topics.emit(t, alice, "a", "1")        // 2
	topics.emit(t, bob, "b", "1")          // 3
	for i := 2; i <= 4; i++ {
		topics.emit(t, alice, "a", fmt.Sprint(i)) // 4, 5, 6
	}
	for name, tc := range map[string]struct {
		filter bridge.EventFilter
		want   []string
	}{
		"alice":        {bridge.EventFilter{Agent: alice.Agent}, []string{"gap 1-2", "4 a 2", "5 a 3", "6 a 4"}},
		"alice, later": {bridge.EventFilter{Agent: alice.Agent, After: 2}, []string{"4 a 2", "5 a 3", "6 a 4"}},
		"bob":          {bridge.EventFilter{Agent: bob.Agent}, []string{"gap 1-1", "3 b 1"}}, // he could not see alice's own
		"all":          {bridge.EventFilter{}, []string{"gap 1-2", "3 b 1", "4 a 2", "5 a 3", "6 a 4"}},
	} {
		if got := topics.list(t, tc.filter); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	storetest.Delete(t, topics.db, alice)
	if got := topics.list(t, bridge.EventFilter{}); !slices.Equal(got, []string{"3 b 1"}) {
		t.Errorf("without alice: %q", got)
	}
	if n := storetest.Count(t, topics.db, "SELECT count(*) FROM topic_marks"); n != 0 {
		t.Errorf("%d marks are left", n)
	}
	topics.emit(t, bob, "b", "2")
	if got := topics.list(t, bridge.EventFilter{After: 6}); !slices.Equal(got, []string{"7 b 2"}) {
		t.Errorf("a number was given twice: %q", got)
	}
}

// A follower gets every event once and in order, also after it reconnects.
func TestTopicFollow(t *testing.T) {
	topics, alice, bob := openTopics(t)
	const all = eventPage + 40
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		for i := range all {
			who := alice
			if i%2 == 1 {
				who = bob
			}
			if err := topics.Emit(ctx, who, "shared:n", json.RawMessage(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		}
	}()
	at := bridge.EventSeq(0)
	for at < all { // in several sittings
		sitting := 30
		for e, err := range topics.Read(ctx, bridge.EventFilter{Agent: bob.Agent, After: at}, true) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Gap != nil || e.Seq != at+1 || string(e.Payload) != fmt.Sprint(at) {
				t.Fatalf("after %d: %s", at, eventText(e))
			}
			at = e.Seq
			if sitting--; sitting == 0 || at == all {
				break
			}
		}
	}
	<-emitted
	cancel()
	for _, err := range topics.Read(ctx, bridge.EventFilter{After: at}, true) {
		if err == nil {
			t.Error("there is more than there was")
		}
	}
}
