package services

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

const (
	// MaxFacts is how many facts an agent may have. A new fact replaces the oldest
	// of the least salient ones, but never one that is pinned or more salient than
	// itself.
	MaxFacts     = 2_000
	MaxFact      = 4 << 10 // bytes of one fact
	DefaultFound = 10      // results of a query
	MaxFound     = 100     // results of a search by a person

	// New facts have one of these saliences, so that facts that programs store never
	// replace what a person added.
	programSalience = 0.7
	personSalience  = 1.0
	pinnedBonus     = 1.0 // added to the salience of pinned facts

	byPerson = "person" // the source of facts that a person added
	factPage = 64       // facts read from the database at a time
)

// FactID is the number of a fact. It is never reused.
type FactID int64

// Fact is a fact that an agent remembers.
type Fact struct {
	ID       FactID
	Content  string
	Salience float64
	Source   string
	Pinned   bool
	Created  time.Time
}

// Memory stores the facts of each agent durably. Deleting an agent deletes them. It
// implements bridge.Memory.
type Memory struct {
	db    *store.DB
	clean Clean
	limit int // MaxFacts, less in tests
}

var _ bridge.Memory = (*Memory)(nil)

// NewMemory returns the facts in a database.
func NewMemory(db *store.DB, clean Clean) *Memory { return &Memory{db, clean, MaxFacts} }

// Query returns the best of the caller's facts for a text.
func (m *Memory) Query(ctx context.Context, who bridge.Caller, text string) ([]bridge.Fact, error) {
	found, err := m.Search(ctx, who.Agent, text, DefaultFound)
	if err != nil {
		return nil, err
	}
	list := make([]bridge.Fact, len(found))
	for i, f := range found {
		list[i] = bridge.Fact{Content: f.Content, Salience: f.Salience, CreatedAt: f.Created}
	}
	return list, nil
}

// Store adds a fact for a program.
func (m *Memory) Store(ctx context.Context, who bridge.Caller, content string) error {
	_, err := m.add(ctx, who.Agent, Fact{Content: m.clean(ctx, who.Agent, content), Salience: programSalience, Source: "sandbox:" + string(who.User)})
	return err
}

// Add adds a fact for a person.
func (m *Memory) Add(ctx context.Context, agent config.AgentID, content string, pinned bool) (Fact, error) {
	return m.add(ctx, agent, Fact{Content: content, Salience: personSalience, Source: byPerson, Pinned: pinned})
}

// add stores a fact. If the content exists already, it renews that fact and keeps
// the higher salience with its source.
func (m *Memory) add(ctx context.Context, agent config.AgentID, f Fact) (Fact, error) {
	const op = "store memory"
	f.Content = strings.TrimSpace(strings.ToValidUTF8(f.Content, "\uFFFD"))
	switch {
	case f.Content == "":
		return Fact{}, fault.Newf(fault.InvalidArgs, op, "", "the fact is empty").Advise("Write a text.")
	case len(f.Content) > MaxFact:
		return Fact{}, fault.Newf(fault.InvalidArgs, op, "", "%d bytes are more than the %d allowed", len(f.Content), MaxFact).
			Advise("Shorten it, or store the path of a file that contains it.")
	}
	err := m.db.Write(ctx, op, func(tx *sql.Tx) error {
		kept, err := scanFact(tx.QueryRowContext(ctx, `INSERT INTO facts (agent, content, salience, source, pinned, created) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (agent, content) DO UPDATE SET
			salience = max(salience, excluded.salience), pinned = max(pinned, excluded.pinned), created = excluded.created,
			source = iif(excluded.salience < salience, source, excluded.source)
			RETURNING `+factColumns, agent, f.Content, f.Salience, f.Source, f.Pinned, time.Now().UnixNano()))
		if err != nil {
			return err
		}
		f = kept
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO fact_words (rowid, owner, content) VALUES (?, ?, ?)",
			f.ID, owner(agent), strings.Join(words(f.Content), " ")); err != nil {
			return err
		}
		return m.trim(ctx, tx, op, agent, f)
	})
	return f, err
}

// trim deletes the least salient facts beyond the limit, but none that is more
// salient than keep.
func (m *Memory) trim(ctx context.Context, tx *sql.Tx, op string, agent config.AgentID, keep Fact) error {
	var facts int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM facts WHERE agent = ?", agent).Scan(&facts); err != nil || facts <= m.limit {
		return err
	}
	done, err := tx.ExecContext(ctx, `DELETE FROM facts WHERE id IN (
		SELECT id FROM facts WHERE agent = ? AND NOT pinned AND id <> ? AND salience <= ? ORDER BY salience, created LIMIT ?)`,
		agent, keep.ID, keep.Salience, facts-m.limit)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || int(n) < facts-m.limit {
		return errors.Join(err, fault.Newf(fault.Rejected, op, "", "%d facts are pinned or more salient", m.limit).
			Advise("Ask a person to unpin or delete some: osaurus-sandbox memory list AGENT"))
	}
	return nil
}

// List yields all facts of an agent, oldest first.
func (m *Memory) List(ctx context.Context, agent config.AgentID) iter.Seq2[Fact, error] {
	return store.Pages(factPage, func(last Fact) ([]Fact, error) {
		return m.read(ctx, "list memory", "SELECT "+factColumns+" FROM facts WHERE agent = ? AND id > ? ORDER BY id LIMIT ?", agent, last.ID, factPage)
	})
}

// Pin pins or unpins a fact. Pinned facts are never replaced by new ones.
func (m *Memory) Pin(ctx context.Context, agent config.AgentID, id FactID, pinned bool) (f Fact, err error) {
	const op = "pin memory"
	err = m.db.Write(ctx, op, func(tx *sql.Tx) error {
		f, err = scanFact(tx.QueryRowContext(ctx, "UPDATE facts SET pinned = ? WHERE agent = ? AND id = ? RETURNING "+factColumns, pinned, agent, id))
		if errors.Is(err, sql.ErrNoRows) {
			return noFact(op, id)
		}
		return err
	})
	return f, err
}

// Delete deletes a fact.
func (m *Memory) Delete(ctx context.Context, agent config.AgentID, id FactID) error {
	const op = "delete memory"
	n, err := m.db.Exec(ctx, op, "DELETE FROM facts WHERE agent = ? AND id = ?", agent, id)
	if err == nil && n == 0 {
		return noFact(op, id)
	}
	return err
}

// DeleteAll deletes all facts of an agent and returns their number.
func (m *Memory) DeleteAll(ctx context.Context, agent config.AgentID) (int, error) {
	return m.db.Exec(ctx, "delete memory", "DELETE FROM facts WHERE agent = ?", agent)
}

func noFact(op string, id FactID) error {
	return fault.Newf(fault.NotFound, op, fmt.Sprint(id), "the agent has no fact with this number").Advise("See `osaurus-sandbox memory list`.")
}

// factColumns are in the order that scanFact expects.
const factColumns = "id, content, salience, source, pinned, created"

func scanFact(row store.Row) (Fact, error) {
	var f Fact
	err := row.Scan(&f.ID, &f.Content, &f.Salience, &f.Source, &f.Pinned, store.Time(&f.Created))
	return f, err
}

func (m *Memory) read(ctx context.Context, op, query string, args ...any) ([]Fact, error) {
	return store.Select(ctx, m.db, op, scanFact, query, args...)
}

const (
	maxQuery      = 4 << 10 // bytes used of a query
	maxQueryWords = 32      // different words used of a query
	maxWord       = 64      // bytes indexed of a word
)

// findByWords weighs a word by how few of the agent's facts contain it. SQLite's bm25
// would count the facts of all agents, so that the order would leak their contents.
const findByWords = `WITH hits AS (
	SELECT fact_words.rowid AS id, count(*) OVER (PARTITION BY asked.key) AS among
	FROM json_each(?1) AS asked JOIN fact_words ON fact_words MATCH asked.value
)
SELECT ` + factColumns + ` FROM (SELECT id AS hit, sum(ln(1 + ?2 / among)) AS score FROM hits GROUP BY id)
JOIN facts ON facts.id = hit AND facts.agent = ?3
ORDER BY score * (salience + ?4 * pinned) DESC, created DESC, id DESC LIMIT ?5`

const findSalient = "SELECT " + factColumns + " FROM facts WHERE agent = ?1 ORDER BY salience + ?2 * pinned DESC, created DESC, id DESC LIMIT ?3"

// Search returns the agent's best facts that contain a word of the text, or its most
// salient facts if the text has no words.
func (m *Memory) Search(ctx context.Context, agent config.AgentID, text string, limit int) ([]Fact, error) {
	const op = "search memory"
	if limit < 1 || limit > MaxFound {
		return nil, fault.Newf(fault.InvalidArgs, op, "", "the limit %d is not between 1 and %d", limit, MaxFound).Advise("Change the limit.")
	}
	asked := queries(agent, text)
	if len(asked) == 0 {
		return m.read(ctx, op, findSalient, agent, pinnedBonus, limit)
	}
	list, err := json.Marshal(asked)
	if err != nil {
		return nil, fault.New(fault.Execution, op, "", err)
	}
	return m.read(ctx, op, findByWords, string(list), float64(m.limit), agent, pinnedBonus, limit)
}

// queries returns an FTS5 query for each word of a text. Words are letters and digits
// in quotes, so that the text cannot use the query language.
func queries(agent config.AgentID, text string) (list []string) {
	seen := map[string]bool{}
	for _, word := range words(text[:min(len(text), maxQuery)]) {
		if word = strings.ToLower(word); !seen[word] && len(seen) < maxQueryWords {
			seen[word] = true
			list = append(list, fmt.Sprintf(`owner : "%s" AND content : "%s"`, owner(agent), word))
		}
	}
	return list
}

// owner returns an agent's ID as one word.
func owner(agent config.AgentID) string { return strings.ReplaceAll(string(agent), "-", "") }

// words splits a text. In scripts without spaces each character is a word.
func words(text string) (list []string) {
	begin := -1 // of the current word
	end := func(at int) {
		if begin >= 0 {
			list = append(list, strings.ToValidUTF8(text[begin:min(at, begin+maxWord)], ""))
		}
		begin = -1
	}
	for at, r := range text {
		switch {
		case unicode.IsMark(r): // belongs to the letter before it
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end(at)
			list = append(list, string(r))
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			if begin < 0 {
				begin = at
			}
		default:
			end(at)
		}
	}
	end(len(text))
	return list
}
