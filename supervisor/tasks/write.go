package tasks

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

// write is a transaction in which tasks are what they are now: leases that are over
// and tasks that have waited too long are dealt with. Whoever only reads writes
// nothing, unless there is something to be dealt with.
type write struct {
	ctx     context.Context
	tx      *sql.Tx
	now     time.Time
	changed []change
}

// change is a task in another state, and who brought it there.
type change struct {
	task Task
	by   string
}

func (t *Tasks) write(ctx context.Context, op string, do func(*write) error) error {
	var w *write
	err := t.db.Write(ctx, op, func(tx *sql.Tx) error {
		w = &write{ctx: ctx, tx: tx, now: t.now()}
		if err := w.settle(); err != nil {
			return err
		}
		return do(w)
	})
	if err != nil {
		return err
	}
	ring := false
	for _, c := range w.changed {
		ring = ring || c.task.State == Queued
		t.note(events.Event{Kind: c.task.State.event(), Cause: c.by,
			Fields: map[string]string{"agent": string(c.task.Name), "id": string(c.task.Agent), "task": string(c.task.ID)}})
	}
	if ring {
		t.queued.Ring()
	}
	return nil
}

// settle does what time has brought.
func (w *write) settle() error {
	over, err := w.list("SELECT "+columns+" FROM tasks WHERE state IN ('queued', 'leased') AND until <= ? ORDER BY seq", w.now.UnixNano())
	for _, task := range over {
		const by = "the time is over"
		switch {
		case err != nil:
		case task.State == Leased && task.Attempts >= MaxAttempts:
			_, err = w.end(by, task, Failed, fmt.Sprintf("%d workers leased it and did not answer in time", task.Attempts))
		case task.State == Leased && w.now.Before(task.Created.Add(Patience)):
			_, err = w.end(by, task, Queued, "")
		default:
			_, err = w.end(by, task, Expired, "")
		}
	}
	return err
}

// end has a task be in no worker's hands: queued again, or ended.
func (w *write) end(by string, task Task, state State, result string) (Task, error) {
	ended := w.now.UnixNano()
	if state == Queued {
		ended = 0
	}
	return w.change(by, "UPDATE tasks SET state = ?, until = ?, ended = ?, result = ? WHERE id = ?",
		state, task.Created.Add(Patience).UnixNano(), ended, result, task.ID)
}

// change brings one task into another state.
func (w *write) change(by, query string, args ...any) (Task, error) {
	task, err := w.one(query+" RETURNING "+columns, args...)
	if err == nil {
		w.changed = append(w.changed, change{task, by})
	}
	return task, err
}

func (w *write) get(op string, id bridge.TaskID) (Task, error) {
	task, err := w.one("SELECT "+columns+" FROM tasks WHERE id = ?", strings.ToUpper(string(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return Task{}, fault.Newf(fault.NotFound, op, fmt.Sprintf("%.40s", id), "there is no such task").Advise("See `osaurus-sandbox task list`.")
	}
	return task, err
}

// columns are a task's, in the order that scan has.
const columns = `seq, id, agent, (SELECT name FROM agents WHERE agents.id = agent), text, coalesce(key, ''), source, depth, state,
	created, until, attempts, lease, worker, ended, result`

func scan(row store.Row) (Task, error) {
	var t Task
	var created, until, ended int64
	err := row.Scan(&t.seq, &t.ID, &t.Agent, &t.Name, &t.Text, &t.Key, &t.Source, &t.Depth, &t.State,
		&created, &until, &t.Attempts, &t.lease, &t.Worker, &ended, &t.Result)
	t.Created, t.Until = time.Unix(0, created).UTC(), time.Unix(0, until).UTC()
	if ended != 0 {
		t.Ended = time.Unix(0, ended).UTC()
	}
	return t, err
}

func (w *write) row(query string, args ...any) *sql.Row {
	return w.tx.QueryRowContext(w.ctx, query, args...)
}

func (w *write) one(query string, args ...any) (Task, error) { return scan(w.row(query, args...)) }

// maybe scans one value, if there is one.
func (w *write) maybe(to any, query string, args ...any) (bool, error) {
	err := w.row(query, args...).Scan(to)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (w *write) exec(query string, args ...any) error {
	_, err := w.tx.ExecContext(w.ctx, query, args...)
	return err
}

func (w *write) list(query string, args ...any) ([]Task, error) {
	return store.All(w.ctx, w.tx, scan, query, args...)
}
