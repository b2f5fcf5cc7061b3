package services

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store"
)

// taskTx is a transaction that begins with expiring leases and tasks, so that the
// tasks in it have their current states.
type taskTx struct {
	ctx     context.Context
	tx      *sql.Tx
	now     time.Time
	changed []taskChange
}

// taskChange is a task in a new state.
type taskChange struct {
	task Task
	by   string
}

func (t *Tasks) write(ctx context.Context, op string, do func(*taskTx) error) error {
	var w *taskTx
	err := t.db.Write(ctx, op, func(tx *sql.Tx) error {
		w = &taskTx{ctx: ctx, tx: tx, now: t.now()}
		if err := w.expire(); err != nil {
			return err
		}
		return do(w)
	})
	if err != nil {
		return err
	}
	queued := false
	for _, c := range w.changed {
		queued = queued || c.task.State == TaskQueued
		t.note(events.Event{Kind: c.task.State.event(), Cause: c.by,
			Fields: map[string]string{"agent": string(c.task.Name), "id": string(c.task.Agent), "task": string(c.task.ID)}})
	}
	if queued {
		t.queued.Notify()
	}
	return nil
}

func (w *taskTx) expire() error {
	over, err := w.list("SELECT "+taskColumns+" FROM tasks WHERE state IN ('queued', 'leased') AND until <= ? ORDER BY seq", w.now.UnixNano())
	for _, task := range over {
		const by = "timeout"
		switch {
		case err != nil:
		case task.State == TaskLeased && task.Attempts >= MaxTaskAttempts:
			_, err = w.end(by, task, TaskFailed, fmt.Sprintf("%d workers did not finish it in time", task.Attempts))
		case task.State == TaskLeased && w.now.Before(task.Created.Add(TaskTimeout)):
			_, err = w.end(by, task, TaskQueued, "")
		default:
			_, err = w.end(by, task, TaskExpired, "")
		}
	}
	return err
}

// end takes a task from its worker: it is queued again or ended.
func (w *taskTx) end(by string, task Task, state TaskState, result string) (Task, error) {
	ended := w.now.UnixNano()
	if state == TaskQueued {
		ended = 0
	}
	return w.change(by, "UPDATE tasks SET state = ?, until = ?, ended = ?, result = ? WHERE id = ?",
		state, task.Created.Add(TaskTimeout).UnixNano(), ended, result, task.ID)
}

// change changes the state of one task.
func (w *taskTx) change(by, query string, args ...any) (Task, error) {
	task, err := w.one(query+" RETURNING "+taskColumns, args...)
	if err == nil {
		w.changed = append(w.changed, taskChange{task, by})
	}
	return task, err
}

func (w *taskTx) get(op string, id bridge.TaskID) (Task, error) {
	task, err := w.one("SELECT "+taskColumns+" FROM tasks WHERE id = ?", strings.ToUpper(string(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return Task{}, fault.Newf(fault.NotFound, op, fmt.Sprintf("%.40s", id), "no such task").Advise("See `osaurus-sandbox task list`.")
	}
	return task, err
}

// taskColumns are in the order that scanTask expects.
const taskColumns = `seq, id, agent, (SELECT name FROM agents WHERE agents.id = agent), text, coalesce(key, ''), source, depth, state,
	created, until, attempts, lease, worker, ended, result`

func scanTask(row store.Row) (Task, error) {
	var t Task
	err := row.Scan(&t.seq, &t.ID, &t.Agent, &t.Name, &t.Text, &t.Key, &t.Source, &t.Depth, &t.State,
		store.Time(&t.Created), store.Time(&t.Until), &t.Attempts, &t.lease, &t.Worker, store.Time(&t.Ended), &t.Result)
	return t, err
}

func (w *taskTx) row(query string, args ...any) *sql.Row {
	return w.tx.QueryRowContext(w.ctx, query, args...)
}

func (w *taskTx) one(query string, args ...any) (Task, error) { return scanTask(w.row(query, args...)) }

func (w *taskTx) exec(query string, args ...any) error {
	_, err := w.tx.ExecContext(w.ctx, query, args...)
	return err
}

func (w *taskTx) list(query string, args ...any) ([]Task, error) {
	return store.All(w.ctx, w.tx, scanTask, query, args...)
}
