package services

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/store"
)

// lookAgain is how often a worker that waits looks for tasks whose lease has ended.
const lookAgain = time.Second

// Lease leases the oldest queued task of an agent to a worker. If agent is empty, it
// takes tasks of all agents in turns. If none is queued, it waits up to wait; ok is
// false if there still is none.
func (t *Tasks) Lease(ctx context.Context, agent config.AgentID, worker string, hold, wait time.Duration) (task Task, lease Lease, ok bool, err error) {
	const op = "lease task"
	if hold, err = checkHold(op, hold); err != nil {
		return Task{}, "", false, err
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for {
		queued := t.queued.Next() // before looking, so that no task is missed
		err := t.write(ctx, op, func(w *taskTx) error {
			// Agents whose tasks were never leased come first.
			next, err := store.All(w.ctx, w.tx, store.Value[int64], `SELECT min(seq) FROM tasks AS q WHERE state = 'queued' AND ?1 IN ('', agent)
				GROUP BY agent ORDER BY (SELECT max(leased) FROM tasks WHERE agent = q.agent), min(seq) LIMIT 1`, agent)
			if err != nil {
				return err
			}
			if len(next) > 0 {
				ok, lease = true, Lease(rand.Text())
				task, err = w.change(worker, "UPDATE tasks SET state = 'leased', until = ?, attempts = attempts + 1, lease = ?, worker = ?, leased = ? WHERE seq = ?",
					w.now.Add(hold).UnixNano(), lease, worker, w.now.UnixNano(), next[0])
				return err
			}
			return nil
		})
		if err != nil || ok || wait <= 0 {
			return task, lease, ok, err
		}
		select {
		case <-queued:
		case <-time.After(lookAgain): // a lease may have ended
		case <-limit.C:
			wait = 0 // look once more
		case <-ctx.Done():
			return Task{}, "", false, fault.Wrap(op, "", ctx.Err())
		}
	}
}

// Renew makes a lease last for hold from now. It also renews an expired lease if
// nobody else has leased the task since.
func (t *Tasks) Renew(ctx context.Context, id bridge.TaskID, lease Lease, hold time.Duration) (task Task, err error) {
	const op = "renew lease of task"
	if hold, err = checkHold(op, hold); err != nil {
		return Task{}, err
	}
	err = t.write(ctx, op, func(w *taskTx) error {
		if task, err = w.leased(op, id, lease); err != nil {
			return err
		}
		if !task.Ended.IsZero() {
			return endedError(op, task)
		}
		task, err = w.one("UPDATE tasks SET state = 'leased', until = ? WHERE id = ? RETURNING "+taskColumns, w.now.Add(hold).UnixNano(), id)
		return err
	})
	return task, err
}

// Complete ends a task with a result. It may be repeated, and may come after the lease
// has expired if nobody else has leased the task since.
func (t *Tasks) Complete(ctx context.Context, id bridge.TaskID, lease Lease, result string) (Task, error) {
	return t.answer(ctx, "complete task", id, lease, TaskDone, result)
}

// Fail ends a task with the reason why it failed. With retry, it queues the task again
// unless that was its last attempt.
func (t *Tasks) Fail(ctx context.Context, id bridge.TaskID, lease Lease, reason string, retry bool) (Task, error) {
	state := TaskFailed
	if retry {
		state = TaskQueued
	}
	return t.answer(ctx, "fail task", id, lease, state, reason)
}

func (t *Tasks) answer(ctx context.Context, op string, id bridge.TaskID, lease Lease, state TaskState, result string) (task Task, err error) {
	if err := checkTaskText(op, result); err != nil {
		return Task{}, err
	}
	err = t.write(ctx, op, func(w *taskTx) error {
		if task, err = w.leased(op, id, lease); err != nil {
			return err
		}
		if state == TaskQueued && task.Attempts >= MaxTaskAttempts {
			state = TaskFailed
		}
		switch {
		case task.State == state:
			return nil // repeated
		case !task.Ended.IsZero():
			return endedError(op, task)
		}
		task, err = w.end(task.Worker, task, state, result)
		return err
	})
	return task, err
}

func endedError(op string, task Task) error {
	return fault.Newf(fault.Rejected, op, string(task.ID), "it is %s", task.State).Advise("Stop working on it.")
}

func checkHold(op string, hold time.Duration) (time.Duration, error) {
	switch {
	case hold == 0:
		return DefaultLease, nil
	case hold < time.Second || hold > MaxLease:
		return 0, fault.Newf(fault.InvalidArgs, op, "", "a lease cannot last %v", hold).Advise(fmt.Sprintf("Use 1s to %v, and renew it.", MaxLease))
	}
	return hold, nil
}

// leased returns a task if lease is its last one.
func (w *taskTx) leased(op string, id bridge.TaskID, lease Lease) (Task, error) {
	task, err := w.get(op, id)
	switch {
	case err != nil:
		return Task{}, err
	case lease == "" || task.lease != lease:
		return Task{}, fault.Newf(fault.Rejected, op, string(id), "the lease is not valid").Advise("Stop working on it.")
	}
	return task, nil
}
