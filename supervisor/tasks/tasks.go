// Package tasks is the queue of work that agents have dispatched, for whoever serves them: leased, done once, and never lost.
package tasks

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"math"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store"
)

const (
	// MaxText bounds a task, and what it comes to: it is said in words, files are in
	// the workspace. More is refused.
	MaxText = 64 << 10
	// MaxKey bounds the key by which a task is one. A longer one is refused.
	MaxKey = bridge.MaxSessionKey
	// MaxOpen is how many tasks of an agent may wait or be worked on. One more is
	// refused until another has ended.
	MaxOpen = 100
	// MaxDepth is how many tasks may lead to one. A task that has itself dispatched
	// again goes no further.
	MaxDepth = 8
	// MaxAttempts is how often a task is leased. It has failed if the last lease is
	// over too: perhaps it is what ends its workers.
	MaxAttempts = 3
	// Patience is how long a task waits for somebody to lease it. Then it expires.
	Patience = 24 * time.Hour
	// KeepEnded is how many of an agent's tasks are kept that have ended, with their
	// keys.
	KeepEnded = 500
	// DefaultHold and MaxHold are how long a lease lasts unless it is renewed.
	DefaultHold = time.Minute
	MaxHold     = time.Hour
)

// State says how a task is.
type State string

// The states of tasks. The first two are open, the others final.
const (
	Queued    State = "queued"
	Leased    State = "leased"
	Done      State = "done"
	Failed    State = "failed"
	Expired   State = "expired"
	Cancelled State = "cancelled"
)

// event is what it is called that a task is in a state.
func (s State) event() events.Kind { return events.Kind("task." + s) }

// Lease is what a worker renews and ends a task with: nobody else knows it.
type Lease string

// Task is work of an agent.
type Task struct {
	ID       bridge.TaskID
	Agent    config.AgentID
	Name     config.AgentName
	Text     string
	Key      string // empty: none
	Source   string // who dispatched it
	Depth    int    // how many tasks led to it
	State    State
	Created  time.Time
	Until    time.Time // when it expires, while queued; when its lease is over, while leased
	Attempts int       // leases so far
	Worker   string    // who had the last one
	Ended    time.Time // zero: not yet
	Result   string    // what it came to, or why it failed

	seq   int64 // in the order in which they were dispatched
	lease Lease
}

// Tasks is the part of the database that holds tasks. They go with their agent.
// What Tasks was told is on the disk when it returns. Tasks implements bridge.Tasks.
type Tasks struct {
	db     *store.DB
	note   func(events.Event)
	now    func() time.Time
	queued notify.Bell
}

var _ bridge.Tasks = (*Tasks)(nil)

// New returns the tasks in a database. What becomes of them is noted.
func New(db *store.DB, note func(events.Event)) *Tasks {
	return &Tasks{db: db, note: note, now: time.Now}
}

// Dispatch queues what a program asks to be done. While a task of its agent is
// worked on, it counts as led to by that one, and of several by the deepest: nobody
// can tell which of them the program belongs to.
func (t *Tasks) Dispatch(ctx context.Context, who bridge.Caller, text, key string) (bridge.TaskID, error) {
	task, err := t.add(ctx, Task{Agent: who.Agent, Text: text, Key: key, Source: "sandbox:" + string(who.User)}, deeper)
	return task.ID, err
}

// Add queues what a person or an app asks to be done.
func (t *Tasks) Add(ctx context.Context, agent config.AgentID, text, key, client string) (Task, error) {
	return t.add(ctx, Task{Agent: agent, Text: text, Key: key, Source: client}, func(*write, config.AgentID) (int, error) { return 0, nil })
}

func (t *Tasks) add(ctx context.Context, task Task, depth func(*write, config.AgentID) (int, error)) (Task, error) {
	const op = "dispatch task"
	if err := checkSize(op, task.Text); err != nil {
		return Task{}, err
	}
	switch {
	case strings.TrimSpace(task.Text) == "":
		return Task{}, fault.Newf(fault.InvalidArgs, op, "", "there is nothing to do").Advise("Say what.")
	case len(task.Key) > MaxKey:
		return Task{}, fault.Newf(fault.InvalidArgs, op, "", "a session key of %d bytes is longer than %d", len(task.Key), MaxKey).Advise("Write a shorter one.")
	}
	err := t.write(ctx, op, func(w *write) error {
		there, err := w.one("SELECT "+columns+" FROM tasks WHERE agent = ? AND key = ?", task.Agent, task.Key)
		if err == nil {
			task = there
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if task.Depth, err = depth(w, task.Agent); err != nil {
			return err
		}
		if task.Depth > MaxDepth {
			return fault.Newf(fault.Rejected, op, "", "%d tasks led to it, one from the other", task.Depth).
				Advise("An agent that gives itself task after task has no end: let the one that is worked on end first.")
		}
		var open int
		if err := w.row("SELECT count(*) FROM tasks WHERE agent = ? AND state IN ('queued', 'leased')", task.Agent).Scan(&open); err != nil {
			return err
		}
		if open >= MaxOpen {
			return fault.Newf(fault.Rejected, op, "", "%d tasks of the agent have not ended", open).
				Advise("Wait until some have, or have a person cancel them: osaurus-sandbox task list")
		}
		task, err = w.change(task.Source, `INSERT INTO tasks (id, agent, key, text, source, depth, state, created, until, attempts, lease, worker, leased, ended, result)
			VALUES (?, ?, nullif(?, ''), ?, ?, ?, 'queued', ?, ?, 0, '', '', 0, 0, '')`,
			config.NewUUID(), task.Agent, task.Key, task.Text, task.Source, task.Depth, w.now.UnixNano(), w.now.Add(Patience).UnixNano())
		if err != nil {
			return err
		}
		return w.exec(`DELETE FROM tasks WHERE seq IN (
			SELECT seq FROM tasks WHERE agent = ? AND state NOT IN ('queued', 'leased') ORDER BY ended DESC LIMIT -1 OFFSET ?)`, task.Agent, KeepEnded)
	})
	return task, err
}

// deeper is one more than the deepest task of an agent that is worked on.
func deeper(w *write, agent config.AgentID) (depth int, err error) {
	err = w.row("SELECT coalesce(max(depth) + 1, 0) FROM tasks WHERE agent = ? AND state = 'leased'", agent).Scan(&depth)
	return depth, err
}

// Get returns a task.
func (t *Tasks) Get(ctx context.Context, id bridge.TaskID) (task Task, err error) {
	const op = "show task"
	err = t.write(ctx, op, func(w *write) error {
		task, err = w.get(op, id)
		return err
	})
	return task, err
}

// page is how many tasks are read at a time: some megabytes at most.
const page = 32

// List yields the tasks of an agent, or of all for none, the newest first: all, or
// those that are open.
func (t *Tasks) List(ctx context.Context, agent config.AgentID, open bool) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		before := int64(math.MaxInt64)
		for {
			var list []Task
			err := t.write(ctx, "list tasks", func(w *write) (err error) {
				list, err = w.list("SELECT "+columns+` FROM tasks WHERE ?1 IN ('', agent) AND (NOT ?2 OR state IN ('queued', 'leased'))
					AND seq < ?3 ORDER BY seq DESC LIMIT ?4`, agent, open, before, page)
				return err
			})
			if err != nil {
				yield(Task{}, err)
				return
			}
			for _, task := range list {
				if !yield(task, nil) {
					return
				}
				before = task.seq
			}
			if len(list) < page {
				return
			}
		}
	}
}

// Cancel ends a task that has not ended, and leaves one that has as it is.
func (t *Tasks) Cancel(ctx context.Context, id bridge.TaskID, client string) (task Task, err error) {
	const op = "cancel task"
	err = t.write(ctx, op, func(w *write) error {
		if task, err = w.get(op, id); err != nil || !task.Ended.IsZero() {
			return err
		}
		task, err = w.end(client, task, Cancelled, "")
		return err
	})
	return task, err
}

// checkSize refuses a text that is too long.
func checkSize(op, text string) error {
	if len(text) > MaxText {
		return fault.Newf(fault.InvalidArgs, op, "", "%d bytes are more than %d", len(text), MaxText).Advise("Keep it in a file of the workspace, and say where that is.")
	}
	return nil
}
