package services

import (
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

func openMemory(t testing.TB) (m *Memory, alice, bob bridge.Caller) {
	t.Helper()
	db, who := storetest.New(t, "alice", "bob")
	return NewMemory(db, unchanged), who[0], who[1]
}

func (m *Memory) store(t testing.TB, who bridge.Caller, contents ...string) {
	t.Helper()
	for _, content := range contents {
		if err := m.Store(t.Context(), who, content); err != nil {
			t.Fatalf("%q: %v", content, err)
		}
	}
}

// find returns the contents that a query finds, in order.
func (m *Memory) find(t testing.TB, who bridge.Caller, text string) (contents []string) {
	t.Helper()
	found, err := m.Query(t.Context(), who, text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	for _, f := range found {
		contents = append(contents, f.Content)
	}
	return contents
}

func (m *Memory) all(t testing.TB, who bridge.Caller) (list []Fact) {
	t.Helper()
	for f, err := range m.List(t.Context(), who.Agent) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}

func TestMemoryQuery(t *testing.T) {
	m, alice, bob := openMemory(t)
	before := time.Now()
	m.store(t, alice, "Anna's birthday is the 3rd of May", "The deploy key is in the vault", "Café Zürich opens at nine", "東京の天気は晴れです")
	m.store(t, bob, "bob deploys on Fridays")
	for query, want := range map[string][]string{
		"deploying":          {"The deploy key is in the vault"}, // by its stem
		"ZURICH cafe":        {"Café Zürich opens at nine"},      // without capitals and accents
		"when's Anna's day?": {"Anna's birthday is the 3rd of May"},
		"天気":                 {"東京の天気は晴れです"},
		"Fridays":            nil, // bob's
		"nothing like it":    nil,
	} {
		if got := m.find(t, alice, query); !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	found, err := m.Query(t.Context(), alice, "birthday")
	if err != nil || len(found) != 1 || found[0].Salience != 0.7 || found[0].CreatedAt.Before(before) || found[0].CreatedAt.After(time.Now()) {
		t.Errorf("%+v, %v", found, err)
	}
	if f := m.all(t, alice)[0]; f.Source != "sandbox:agent-alice" || f.Pinned {
		t.Errorf("%+v", f)
	}
	// Stored again, it stays one fact; added by a person, its salience rises.
	if f, err := m.Add(t.Context(), alice.Agent, " The deploy key is in the vault\n", true); err != nil || f.ID != m.all(t, alice)[1].ID || f.Salience != 1 || !f.Pinned || f.Source != byPerson {
		t.Errorf("%+v, %v", f, err)
	}
	m.store(t, alice, "The deploy key is in the vault")
	if list := m.all(t, alice); len(list) != 4 || list[1].Salience != 1 || !list[1].Pinned || list[1].Source != byPerson {
		t.Errorf("%+v", list)
	}
	if got := m.find(t, alice, "vault"); len(got) != 1 {
		t.Errorf("it is found %d times", len(got))
	}
}

func TestMemoryRanking(t *testing.T) {
	m, alice, bob := openMemory(t)
	for i := range 20 {
		m.store(t, alice, fmt.Sprintf("server number %d", i))
	}
	m.store(t, alice, "the server burns")
	if got := m.find(t, alice, "server burns"); len(got) != DefaultFound || got[0] != "the server burns" || got[1] != "server number 19" {
		t.Errorf("a rare word comes first, then what is new: %q", got)
	}
	pinned, err := m.Pin(t.Context(), alice.Agent, m.all(t, alice)[3].ID, true)
	if err != nil || !pinned.Pinned {
		t.Fatalf("%+v, %v", pinned, err)
	}
	if got := m.find(t, alice, "server"); got[0] != "server number 3" {
		t.Errorf("what is pinned comes first: %q", got)
	}
	if got := m.find(t, alice, " ?! "); len(got) != DefaultFound || got[0] != "server number 3" || got[1] != "the server burns" {
		t.Errorf("without a word: %q", got)
	}
	// Other agents' facts do not change the order, which would reveal them.
	m.store(t, alice, "red kite", "green kite")
	before := m.find(t, alice, "red green")
	for i := range 50 {
		m.store(t, bob, fmt.Sprintf("green %d", i))
	}
	if after := m.find(t, alice, "red green"); !slices.Equal(before, after) {
		t.Errorf("%q, and then %q", before, after)
	}
	m.store(t, bob, "red")
	for i := range 90 {
		m.store(t, bob, fmt.Sprintf("red %d", i))
	}
	if after := m.find(t, alice, "red green"); !slices.Equal(before, after) {
		t.Errorf("%q, and then %q", before, after)
	}
}

func TestMemoryLimit(t *testing.T) {
	m, alice, bob := openMemory(t)
	m.limit = 5
	m.store(t, bob, "bob's")
	person, err := m.Add(t.Context(), alice.Agent, "a person said it", false)
	if err != nil {
		t.Fatal(err)
	}
	m.store(t, alice, "one", "two", "three", "four", "five", "six")
	var left []string
	for _, f := range m.all(t, alice) {
		left = append(left, f.Content)
	}
	if !slices.Equal(left, []string{person.Content, "three", "four", "five", "six"}) || len(m.all(t, bob)) != 1 {
		t.Errorf("%q are left", left)
	}
	if got := m.find(t, alice, "one two"); got != nil {
		t.Errorf("%q are found", got)
	}
	for _, f := range m.all(t, alice) {
		if _, err := m.Pin(t.Context(), alice.Agent, f.ID, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Store(t.Context(), alice, "seven"); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("when all is pinned: %v", err)
	}
	if got := m.find(t, alice, "seven"); len(m.all(t, alice)) != 5 || got != nil {
		t.Errorf("%q is kept all the same", got)
	}
	m.store(t, alice, "six") // it is there
	for _, bad := range []string{"", " \n", strings.Repeat("x", MaxFact+1)} {
		if err := m.Store(t.Context(), bob, bad); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
	m.store(t, bob, strings.Repeat("é", MaxFact/2), "\xff\x00")
}

// A program's fact does not replace those of a person; a person's fact does.
func TestProgramsReplaceNothingOfPersons(t *testing.T) {
	m, alice, _ := openMemory(t)
	m.limit = 2
	for _, content := range []string{"first", "second"} {
		if _, err := m.Add(t.Context(), alice.Agent, content, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Store(t.Context(), alice, "a program's"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a program: %v", err)
	}
	if list := m.all(t, alice); len(list) != 2 || list[0].Content != "first" {
		t.Errorf("%+v are left", list)
	}
	if _, err := m.Add(t.Context(), alice.Agent, "third", false); err != nil {
		t.Errorf("a person: %v", err)
	}
	if list := m.all(t, alice); len(list) != 2 || list[0].Content != "second" {
		t.Errorf("%+v are left", list)
	}
}

func TestMemoryDelete(t *testing.T) {
	m, alice, bob := openMemory(t)
	m.store(t, alice, "one", "two", "three")
	m.store(t, bob, "one")
	id := m.all(t, alice)[0].ID
	if err := m.Delete(t.Context(), bob.Agent, id); fault.KindOf(err) != fault.NotFound {
		t.Errorf("bob deletes alice's: %v", err)
	}
	if _, err := m.Pin(t.Context(), bob.Agent, id, true); fault.KindOf(err) != fault.NotFound {
		t.Errorf("bob pins alice's: %v", err)
	}
	if err := m.Delete(t.Context(), alice.Agent, id); err != nil {
		t.Error(err)
	}
	if got := m.find(t, alice, "one two"); !slices.Equal(got, []string{"two"}) {
		t.Errorf("%q are found", got)
	}
	if n, err := m.DeleteAll(t.Context(), alice.Agent); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	storetest.Delete(t, m.db, bob)
	for _, table := range []string{"facts", "fact_words"} {
		if n := storetest.Count(t, m.db, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%d are left in %s", n, table)
		}
	}
	if err := m.Store(t.Context(), bob, "late"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of an agent that is gone: %v", err)
	}
}

// Queries are only words: none is an error, and each fact is found by its own words.
func FuzzQuery(f *testing.F) {
	m, alice, _ := openMemory(f)
	m.store(f, alice, "needle")
	for _, text := range []string{
		`needle" OR "`, `needle*`, `NEAR(needle, 2)`, `owner : "x"`, `content : needle`, `^needle`, `-needle AND NOT (`, `{owner} : x`, "needle\x00x",
		"ⅻ ² \u06dd \u0308\u0301", "\xf0\x9f", strings.Repeat("needle ", 2_000), `'; DROP TABLE facts; --`, "कि", "İ", "\u0e31", "ที่",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := m.Query(t.Context(), alice, text); err != nil {
			t.Fatalf("%.200q: %v", text, err)
		}
		// A fact is found by its own content.
		content := strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), 100)], ""))
		if content == "" || len(words(content)) == 0 {
			return
		}
		fact, err := m.Add(t.Context(), alice.Agent, content, false)
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		found, err := m.Query(t.Context(), alice, content)
		if err != nil || !slices.ContainsFunc(found, func(f bridge.Fact) bool { return f.Content == content }) {
			t.Errorf("%q is not found by itself, but %+v, %v", content, found, err)
		}
		if err := m.Delete(t.Context(), alice.Agent, fact.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(found); err != nil {
			t.Error(err)
		}
	})
}
