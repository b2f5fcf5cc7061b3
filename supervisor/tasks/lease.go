package tasks

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Lease hands out the oldest queued task of an agent, or of any for none, to nobody
// else until the lease is over. Agents take turns: who has dispatched many holds up
// nobody. Where none is queued it waits as long as it may, and then returns none.
func (t *Tasks) Lease(ctx context.Context, agent config.AgentID, worker string, hold, wait time.Duration) (task Task, lease Lease, ok bool, err error) {
	const op = "lease task"
	if hold, err = checkHold(op, hold); err != nil {
		return Task{}, "", false, err
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for {
		queued := t.queued.Next() // before it is looked whether there is one
		var over time.Duration    // from now, the end of the first lease
		err := t.write(ctx, op, func(w *write) error {
			var seq int64
			// One that was never leased comes first: 0 is before all times.
			next, err := w.maybe(&seq, `SELECT min(seq) FROM tasks AS q WHERE state = 'queued' AND ?1 IN ('', agent)
				GROUP BY agent ORDER BY (SELECT max(leased) FROM tasks WHERE agent = q.agent), min(seq) LIMIT 1`, agent)
			if err != nil {
				return err
			}
			if next {
				ok, lease = true, Lease(rand.Text())
				task, err = w.change(worker, "UPDATE tasks SET state = 'leased', until = ?, attempts = attempts + 1, lease = ?, worker = ?, leased = ? WHERE seq = ?",
					w.now.Add(hold).UnixNano(), lease, worker, w.now.UnixNano(), seq)
				return err
			}
			var until int64
			if err := w.row("SELECT coalesce(min(until), ?) FROM tasks WHERE state = 'leased'", w.now.Add(MaxHold).UnixNano()).Scan(&until); err != nil {
				return err
			}
			over = time.Unix(0, until).Sub(w.now)
			return nil
		})
		if err != nil || ok || wait <= 0 {
			return task, lease, ok, err
		}
		again := time.NewTimer(max(over, time.Millisecond))
		select {
		case <-queued:
		case <-again.C:
		case <-limit.C:
			wait = 0 // one last look
		case <-ctx.Done():
			err = fault.Wrap(op, "", ctx.Err())
		}
		again.Stop()
		if err != nil {
			return Task{}, "", false, err
		}
	}
}

// Renew has a lease be over so much later than now. One that was over, and whose
// task nobody else has leased since, is renewed as well.
func (t *Tasks) Renew(ctx context.Context, id bridge.TaskID, lease Lease, hold time.Duration) (task Task, err error) {
	const op = "renew lease of task"
	if hold, err = checkHold(op, hold); err != nil {
		return Task{}, err
	}
	err = t.write(ctx, op, func(w *write) error {
		if task, err = w.leased(op, id, lease); err != nil {
			return err
		}
		if !task.Ended.IsZero() {
			return ended(op, task)
		}
		task, err = w.one("UPDATE tasks SET state = 'leased', until = ? WHERE id = ? RETURNING "+columns, w.now.Add(hold).UnixNano(), id)
		return err
	})
	return task, err
}

// Complete ends a task with what it came to. Whoever completes it twice is
// answered the same; so is a worker that is late, if nobody else has leased it.
func (t *Tasks) Complete(ctx context.Context, id bridge.TaskID, lease Lease, result string) (Task, error) {
	return t.answer(ctx, "complete task", id, lease, Done, result)
}

// Fail ends a task with why it went wrong, or with retry has it be leased
// again, unless that was its last attempt.
func (t *Tasks) Fail(ctx context.Context, id bridge.TaskID, lease Lease, reason string, retry bool) (Task, error) {
	state := Failed
	if retry {
		state = Queued
	}
	return t.answer(ctx, "fail task", id, lease, state, reason)
}

func (t *Tasks) answer(ctx context.Context, op string, id bridge.TaskID, lease Lease, state State, result string) (task Task, err error) {
	if err := checkSize(op, result); err != nil {
		return Task{}, err
	}
	err = t.write(ctx, op, func(w *write) error {
		if task, err = w.leased(op, id, lease); err != nil {
			return err
		}
		if state == Queued && task.Attempts >= MaxAttempts {
			state = Failed
		}
		switch {
		case task.State == state:
			return nil // it was said before, and the answer did not arrive
		case !task.Ended.IsZero():
			return ended(op, task)
		}
		task, err = w.end(task.Worker, task, state, result)
		return err
	})
	return task, err
}

func ended(op string, task Task) error {
	return fault.Newf(fault.Rejected, op, string(task.ID), "it is %s", task.State).Advise("Stop working on it.")
}

func checkHold(op string, hold time.Duration) (time.Duration, error) {
	switch {
	case hold == 0:
		return DefaultHold, nil
	case hold < time.Second || hold > MaxHold:
		return 0, fault.Newf(fault.InvalidArgs, op, "", "a lease cannot last %v", hold).Advise(fmt.Sprintf("It lasts 1s to %v, and can be renewed.", MaxHold))
	}
	return hold, nil
}

// leased returns a task whose last lease is the one given.
func (w *write) leased(op string, id bridge.TaskID, lease Lease) (Task, error) {
	task, err := w.get(op, id)
	switch {
	case err != nil:
		return Task{}, err
	case lease == "" || task.lease != lease:
		return Task{}, fault.Newf(fault.Rejected, op, string(id), "another worker has leased it, or nobody has").Advise("Stop working on it.")
	}
	return task, nil
}
