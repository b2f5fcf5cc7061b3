// Package memory keeps what agents have in mind: facts, found by their words, of each agent apart.
package memory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

const (
	// MaxFacts is how many facts an agent has: some megabytes at most. To make
	// room for one more, the one that matters least is forgotten, and of those the
	// oldest; never one that is pinned or matters more. Where there is none, the new
	// one is refused.
	MaxFacts = 2_000
	// MaxContent bounds one fact: it is a sentence or a page, not a file. A
	// longer one is refused.
	MaxContent = 4 << 10
	// Found is how many facts a query answers, as the reference does it.
	Found = 10
	// MaxFound is how many a person may ask for.
	MaxFound = 100

	// saidByProgram and saidByPerson are the salience of new facts: what a program
	// stores in a flood makes nothing be forgotten that a person has added.
	saidByProgram = 0.7
	saidByPerson  = 1.0
	// pinnedBonus is added to the salience of what is pinned.
	pinnedBonus = 1.0

	// byPerson is the source of what a person has added.
	byPerson = "person"
	// page is how many facts are read from the database at a time.
	page = 64
)

// ID is a fact's number. It is never another's.
type ID int64

// Fact is something that an agent has in mind.
type Fact struct {
	ID       ID
	Content  string
	Salience float64
	Source   string
	Pinned   bool
	Created  time.Time
}

// Memory is the part of the database that holds facts. They go with their agent.
// What Memory was told is on the disk when it returns. It implements bridge.Memory.
type Memory struct {
	db    *store.DB
	limit int // of facts, for each agent
}

var _ bridge.Memory = (*Memory)(nil)

// New returns the memory in a database.
func New(db *store.DB) *Memory { return &Memory{db, MaxFacts} }

// Query finds the caller's own facts, the best first.
func (m *Memory) Query(ctx context.Context, who bridge.Caller, text string) ([]bridge.Fact, error) {
	found, err := m.Search(ctx, who.Agent, text, Found)
	if err != nil {
		return nil, err
	}
	list := make([]bridge.Fact, len(found))
	for i, f := range found {
		list[i] = bridge.Fact{Content: f.Content, Salience: f.Salience, CreatedAt: f.Created}
	}
	return list, nil
}

// Store keeps what a program wants its agent to have in mind.
func (m *Memory) Store(ctx context.Context, who bridge.Caller, content string) error {
	_, err := m.add(ctx, who.Agent, Fact{Content: content, Salience: saidByProgram, Source: "sandbox:" + string(who.User)})
	return err
}

// Add keeps what a person wants an agent to have in mind.
func (m *Memory) Add(ctx context.Context, agent config.AgentID, content string, pinned bool) (Fact, error) {
	return m.add(ctx, agent, Fact{Content: content, Salience: saidByPerson, Source: byPerson, Pinned: pinned})
}

// add keeps a fact. The same content again is the same fact, made new; what a
// person has said stays theirs.
func (m *Memory) add(ctx context.Context, agent config.AgentID, f Fact) (Fact, error) {
	const op = "store memory"
	f.Content = strings.TrimSpace(strings.ToValidUTF8(f.Content, "\uFFFD"))
	switch {
	case f.Content == "":
		return Fact{}, fault.Newf(fault.InvalidArgs, op, "", "there is nothing to keep in mind").Advise("Write what it is.")
	case len(f.Content) > MaxContent:
		return Fact{}, fault.Newf(fault.InvalidArgs, op, "", "%d bytes are more than %d", len(f.Content), MaxContent).
			Advise("Write less, or keep it in a file and store where that is.")
	}
	err := m.db.Write(ctx, op, func(tx *sql.Tx) error {
		kept, err := one(tx.QueryRowContext(ctx, `INSERT INTO facts (agent, content, salience, source, pinned, created) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (agent, content) DO UPDATE SET
			salience = max(salience, excluded.salience), pinned = max(pinned, excluded.pinned), created = excluded.created,
			source = iif(excluded.salience < salience, source, excluded.source)
			RETURNING `+columns, agent, f.Content, f.Salience, f.Source, f.Pinned, time.Now().UnixNano()))
		if err != nil {
			return err
		}
		f = kept
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO fact_words (rowid, owner, content) VALUES (?, ?, ?)",
			f.ID, owner(agent), strings.Join(words(f.Content), " ")); err != nil {
			return err
		}
		return m.makeRoom(ctx, tx, op, agent, f)
	})
	return f, err
}

// makeRoom forgets what matters least, and no more than what is kept, where there is
// too much.
func (m *Memory) makeRoom(ctx context.Context, tx *sql.Tx, op string, agent config.AgentID, keep Fact) error {
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
		return errors.Join(err, fault.Newf(fault.Rejected, op, "", "%d facts are pinned, or matter more", m.limit).
			Advise("A person unpins or deletes some: osaurus-sandbox memory list AGENT"))
	}
	return nil
}

// List yields all facts of an agent, the oldest first.
func (m *Memory) List(ctx context.Context, agent config.AgentID) iter.Seq2[Fact, error] {
	return func(yield func(Fact, error) bool) {
		for after := ID(0); ; {
			list, err := m.read(ctx, "list memory", "SELECT "+columns+" FROM facts WHERE agent = ? AND id > ? ORDER BY id LIMIT ?", agent, after, page)
			if err != nil {
				yield(Fact{}, err)
				return
			}
			for _, f := range list {
				if !yield(f, nil) {
					return
				}
				after = f.ID
			}
			if len(list) < page {
				return
			}
		}
	}
}

// Pin has a fact never be forgotten to make room, or has it be as others.
func (m *Memory) Pin(ctx context.Context, agent config.AgentID, id ID, pinned bool) (f Fact, err error) {
	const op = "pin memory"
	err = m.db.Write(ctx, op, func(tx *sql.Tx) error {
		f, err = one(tx.QueryRowContext(ctx, "UPDATE facts SET pinned = ? WHERE agent = ? AND id = ? RETURNING "+columns, pinned, agent, id))
		if errors.Is(err, sql.ErrNoRows) {
			return notFound(op, id)
		}
		return err
	})
	return f, err
}

// Delete forgets a fact.
func (m *Memory) Delete(ctx context.Context, agent config.AgentID, id ID) error {
	const op = "delete memory"
	n, err := m.delete(ctx, op, "DELETE FROM facts WHERE agent = ? AND id = ?", agent, id)
	if err == nil && n == 0 {
		return notFound(op, id)
	}
	return err
}

// DeleteAll forgets all facts of an agent, and says how many there were.
func (m *Memory) DeleteAll(ctx context.Context, agent config.AgentID) (int, error) {
	return m.delete(ctx, "delete memory", "DELETE FROM facts WHERE agent = ?", agent)
}

func (m *Memory) delete(ctx context.Context, op, query string, args ...any) (n int, err error) {
	err = m.db.Write(ctx, op, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		deleted, err := done.RowsAffected()
		n = int(deleted)
		return err
	})
	return n, err
}

func notFound(op string, id ID) error {
	return fault.Newf(fault.NotFound, op, fmt.Sprint(id), "the agent has no such fact").Advise("See `osaurus-sandbox memory list`.")
}

// columns are a fact's, in the order that one scans.
const columns = "id, content, salience, source, pinned, created"

func one(row store.Row) (Fact, error) {
	var f Fact
	var created int64
	err := row.Scan(&f.ID, &f.Content, &f.Salience, &f.Source, &f.Pinned, &created)
	f.Created = time.Unix(0, created).UTC()
	return f, err
}

func (m *Memory) read(ctx context.Context, op, query string, args ...any) (list []Fact, err error) {
	err = m.db.Read(ctx, op, func(tx *sql.Tx) error {
		list, err = store.All(ctx, tx, one, query, args...)
		return err
	})
	return list, err
}
