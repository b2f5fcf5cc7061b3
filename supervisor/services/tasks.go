package services

import (
	"cmp"
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
	MaxTaskText   = 64 << 10 // bytes of a task or its result
	MaxSessionKey = 512      // bytes of a task's key
	MaxOpenTasks  = 100      // queued or leased, of an agent
	// MaxTaskDepth is how long a chain of tasks that dispatch the next one may get.
	MaxTaskDepth = 8
	// MaxTaskAttempts is how often a task is leased before it has failed: it may be
	// what makes its workers fail.
	MaxTaskAttempts = 3
	TaskTimeout     = 24 * time.Hour // until a task that nobody leases expires
	KeptTasks       = 500            // ended tasks of an agent that are kept, with their keys
	DefaultLease    = time.Minute
	MaxLease        = time.Hour

	taskPage = 32 // tasks read from the database at a time, some megabytes at most
)

// TaskState is the state of a task.
type TaskState string

// The first two states are open, the others final.
const (
	TaskQueued    TaskState = "queued"
	TaskLeased    TaskState = "leased"
	TaskDone      TaskState = "done"
	TaskFailed    TaskState = "failed"
	TaskExpired   TaskState = "expired"
	TaskCancelled TaskState = "cancelled"
)

// event returns the kind of the event for a task that reaches the state.
func (s TaskState) event() events.Kind { return events.Kind("task." + s) }

// Lease is the secret with which a worker renews and ends its task.
type Lease string

// Task is work that an agent dispatched.
type Task struct {
	ID       bridge.TaskID
	Agent    config.AgentID
	Name     config.AgentName
	Text     string
	Key      string // makes the task unique; may be empty
	Source   string // who dispatched it
	Depth    int    // length of the chain of tasks that led to it
	State    TaskState
	Created  time.Time
	Until    time.Time // when it expires if queued, when its lease ends if leased
	Attempts int       // leases so far
	Worker   string    // the last one
	Ended    time.Time // zero if open
	Result   string    // or why it failed

	seq   int64 // order of dispatch
	lease Lease
}

// Tasks is a durable queue of each agent's tasks. Workers lease tasks, so that each is
// done once. Deleting an agent deletes its tasks. Tasks implements bridge.Tasks.
type Tasks struct {
	db     *store.DB
	clean  Clean
	note   func(events.Event)
	now    func() time.Time
	queued notify.Notifier
}

var _ bridge.Tasks = (*Tasks)(nil)

// NewTasks returns the tasks in a database. It calls note for each change of a state.
func NewTasks(db *store.DB, clean Clean, note func(events.Event)) *Tasks {
	return &Tasks{db: db, clean: clean, note: note, now: time.Now}
}

// Dispatch queues a task of a program. It counts as a child of the deepest leased task
// of its agent, since nothing shows which task the program works for.
func (t *Tasks) Dispatch(ctx context.Context, who bridge.Caller, text, key string) (bridge.TaskID, error) {
	task, err := t.add(ctx, Task{
		Agent: who.Agent, Text: t.clean(ctx, who.Agent, text), Key: t.clean(ctx, who.Agent, key), Source: "sandbox:" + string(who.User),
	}, childDepth)
	return task.ID, err
}

// Add queues a task of a person or an app.
func (t *Tasks) Add(ctx context.Context, agent config.AgentID, text, key, client string) (Task, error) {
	return t.add(ctx, Task{Agent: agent, Text: text, Key: key, Source: client}, func(*taskTx, config.AgentID) (int, error) { return 0, nil })
}

func (t *Tasks) add(ctx context.Context, task Task, depth func(*taskTx, config.AgentID) (int, error)) (Task, error) {
	const op = "dispatch task"
	if err := checkTaskText(op, task.Text); err != nil {
		return Task{}, err
	}
	switch {
	case strings.TrimSpace(task.Text) == "":
		return Task{}, fault.Newf(fault.InvalidArgs, op, "", "the task is empty").Advise("Write what to do.")
	case len(task.Key) > MaxSessionKey:
		return Task{}, fault.Newf(fault.InvalidArgs, op, "", "a session key of %d bytes is longer than %d", len(task.Key), MaxSessionKey).Advise("Use a shorter key.")
	}
	err := t.write(ctx, op, func(w *taskTx) error {
		existing, err := w.one("SELECT "+taskColumns+" FROM tasks WHERE agent = ? AND key = ?", task.Agent, task.Key)
		if err == nil {
			task = existing
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if task.Depth, err = depth(w, task.Agent); err != nil {
			return err
		}
		if task.Depth > MaxTaskDepth {
			return fault.Newf(fault.Rejected, op, "", "a chain of %d tasks led to it", task.Depth).
				Advise("Wait until the current task has ended.")
		}
		var open int
		if err := w.row("SELECT count(*) FROM tasks WHERE agent = ? AND state IN ('queued', 'leased')", task.Agent).Scan(&open); err != nil {
			return err
		}
		if open >= MaxOpenTasks {
			return fault.Newf(fault.Rejected, op, "", "the agent has %d open tasks", open).
				Advise("Wait until some have ended, or ask a person to cancel them: osaurus-sandbox task list")
		}
		task, err = w.change(task.Source, `INSERT INTO tasks (id, agent, key, text, source, depth, state, created, until, attempts, lease, worker, leased, ended, result)
			VALUES (?, ?, nullif(?, ''), ?, ?, ?, 'queued', ?, ?, 0, '', '', 0, 0, '')`,
			config.NewUUID(), task.Agent, task.Key, task.Text, task.Source, task.Depth, w.now.UnixNano(), w.now.Add(TaskTimeout).UnixNano())
		if err != nil {
			return err
		}
		return w.exec(`DELETE FROM tasks WHERE seq IN (
			SELECT seq FROM tasks WHERE agent = ? AND state NOT IN ('queued', 'leased') ORDER BY ended DESC LIMIT -1 OFFSET ?)`, task.Agent, KeptTasks)
	})
	return task, err
}

// childDepth returns the depth of a child of the agent's deepest leased task.
func childDepth(w *taskTx, agent config.AgentID) (depth int, err error) {
	err = w.row("SELECT coalesce(max(depth) + 1, 0) FROM tasks WHERE agent = ? AND state = 'leased'", agent).Scan(&depth)
	return depth, err
}

// Get returns a task.
func (t *Tasks) Get(ctx context.Context, id bridge.TaskID) (task Task, err error) {
	const op = "show task"
	err = t.write(ctx, op, func(w *taskTx) error {
		task, err = w.get(op, id)
		return err
	})
	return task, err
}

// List yields the tasks of an agent, or of all agents if it is empty, newest first.
// With open it yields only open tasks.
func (t *Tasks) List(ctx context.Context, agent config.AgentID, open bool) iter.Seq2[Task, error] {
	return store.Pages(taskPage, func(last Task) (list []Task, err error) {
		err = t.write(ctx, "list tasks", func(w *taskTx) error {
			list, err = w.list("SELECT "+taskColumns+` FROM tasks WHERE ?1 IN ('', agent) AND (NOT ?2 OR state IN ('queued', 'leased'))
				AND seq < ?3 ORDER BY seq DESC LIMIT ?4`, agent, open, cmp.Or(last.seq, math.MaxInt64), taskPage)
			return err
		})
		return list, err
	})
}

// Cancel ends a task unless it has ended.
func (t *Tasks) Cancel(ctx context.Context, id bridge.TaskID, client string) (task Task, err error) {
	const op = "cancel task"
	err = t.write(ctx, op, func(w *taskTx) error {
		if task, err = w.get(op, id); err != nil || !task.Ended.IsZero() {
			return err
		}
		task, err = w.end(client, task, TaskCancelled, "")
		return err
	})
	return task, err
}

func checkTaskText(op, text string) error {
	if len(text) > MaxTaskText {
		return fault.Newf(fault.InvalidArgs, op, "", "%d bytes are more than the %d allowed", len(text), MaxTaskText).Advise("Write it to a file in the workspace and name the file.")
	}
	return nil
}
