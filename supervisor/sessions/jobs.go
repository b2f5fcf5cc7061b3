package sessions

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

// askAgain is the shortest interval between two waits for a job, so that a hostile guest that
// answers at once cannot keep this computer busy.
const askAgain = time.Second

// nextQuestion returns when to ask again.
func nextQuestion(asked time.Time) <-chan time.Time {
	return time.After(time.Until(asked.Add(askAgain)))
}

// Job is a job of an agent, as the guest reports it.
type Job struct {
	Agent agents.Agent
	engine.Job
}

// StartJob starts a job and returns when it runs. With running, it fails with
// Unavailable instead of starting the guest.
func (t *Terminals) StartJob(ctx context.Context, ref string, cmd engine.JobCommand, running bool, by machine.Cause) (Job, error) {
	room := t.Agents.Room(ref)
	if running {
		room = t.Agents.RunningRoom(ref)
	}
	l, agent, err := room.Enter(ctx)
	if err != nil {
		return Job{}, err
	}
	job, err := l.Room(agent.User).StartJob(ctx, cmd)
	if err == nil {
		_, err = config.ParseJobID(string(job.ID))
	}
	if err != nil {
		l.Release()
		return Job{}, err
	}
	t.note(JobStarted, by, agent, map[string]string{"job": string(job.ID)})
	t.beside(func() {
		defer l.Release() // keeps the guest running
		t.follow(l, agent, job)
	})
	return t.job(agent, job), nil
}

// follow records when a job has ended.
func (t *Terminals) follow(l *machine.Lease, agent agents.Agent, job engine.Job) {
	fields := map[string]string{"job": string(job.ID)}
	for job.Running {
		asked := time.Now()
		next, err := l.Room(agent.User).WaitJob(t.life, job.ID, engine.MaxJobWait)
		switch {
		case t.life.Err() != nil:
			t.note(JobEnded, "the daemon ends, and the guest with it", agent, fields)
			return
		case err == nil && !next.Running:
			job = next
			continue
		case fault.KindOf(err) == fault.NotFound:
			t.note(JobEnded, "its room is gone", agent, fields)
			return
		}
		select {
		case <-l.Done():
			t.note(JobEnded, "the machine has ended", agent, fields)
			return
		case <-t.life.Done(): // handled above
		case <-nextQuestion(asked):
		}
	}
	maps.Copy(fields, map[string]string{"status": fmt.Sprint(job.Status()), "took": job.Ended.Sub(job.Started).Round(time.Millisecond).String()})
	for name, is := range map[string]bool{"oom": job.OOM, "pids": job.Pids, "killed": job.Killed} {
		if is {
			fields[name] = "true"
		}
	}
	t.note(JobEnded, machine.CauseGuest, agent, fields)
}

// Settle records the ends of jobs that an earlier daemon missed, for example because it was
// killed. past are the recorded events.
func (t *Terminals) Settle(past iter.Seq2[events.Event, error]) error {
	var begun []events.Event
	for e, err := range past {
		if err != nil {
			return err
		}
		switch e.Kind {
		case JobStarted:
			begun = append(begun, e)
		case JobEnded:
			begun = slices.DeleteFunc(begun, func(b events.Event) bool { return b.Fields["job"] == e.Fields["job"] })
		}
	}
	for _, e := range begun {
		t.Record.Note(events.Event{Kind: JobEnded, Cause: "its daemon ended before it did", Fields: e.Fields})
	}
	return nil
}

// Jobs lists the jobs of an agent, or of all if ref is empty, by agent, the
// newest first.
func (t *Terminals) Jobs(ctx context.Context, ref string) ([]Job, error) {
	who, err := t.those(ref)
	if err != nil {
		return nil, err
	}
	var list []Job
	for _, agent := range who {
		l, ok := t.Machines.For(agent.ID).Peek()
		if !ok {
			continue
		}
		jobs, err := l.Room(agent.User).Jobs(ctx)
		l.Release()
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		for _, job := range jobs {
			list = append(list, t.job(agent, job))
		}
	}
	slices.SortStableFunc(list, func(x, y Job) int {
		return cmp.Or(cmp.Compare(x.Agent.Name, y.Agent.Name), y.Started.Compare(x.Started))
	})
	return list, nil
}

// ask calls the running guest about a job. Without a guest there are no jobs.
func (t *Terminals) ask(ctx context.Context, op, ref string, id config.JobID, question func(engine.Jobs) (engine.Job, error)) (Job, error) {
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return Job{}, err
	}
	l, ok := t.Machines.For(agent.ID).Peek()
	if !ok {
		return Job{}, fault.Newf(fault.NotFound, op, string(id), "no guest runs").Advise("Jobs end with their guest; start it again.")
	}
	defer l.Release()
	job, err := question(l.Room(agent.User))
	if err != nil {
		return Job{}, err
	}
	return t.job(agent, job), nil
}

// Job returns the state of a job. Like the calls below, it fails with NotFound
// if the agent has no such job.
func (t *Terminals) Job(ctx context.Context, ref string, id config.JobID) (Job, error) {
	return t.ask(ctx, "ask for job", ref, id, func(jobs engine.Jobs) (engine.Job, error) {
		return jobs.Job(ctx, id)
	})
}

// WaitJob returns when a job has ended or after wait; 0 waits without a limit.
func (t *Terminals) WaitJob(ctx context.Context, ref string, id config.JobID, wait time.Duration) (Job, error) {
	return t.ask(ctx, "wait for job", ref, id, func(jobs engine.Jobs) (engine.Job, error) {
		return waitJob(ctx, jobs, id, wait)
	})
}

func waitJob(ctx context.Context, jobs engine.Jobs, id config.JobID, wait time.Duration) (engine.Job, error) {
	var over <-chan time.Time
	until := time.Now().Add(wait)
	if wait != 0 {
		over = time.After(wait)
	}
	for {
		asked, part := time.Now(), engine.MaxJobWait
		if wait != 0 {
			part = min(part, max(0, time.Until(until)))
		}
		job, err := jobs.WaitJob(ctx, id, part)
		if err != nil || !job.Running || wait != 0 && !time.Now().Before(until) {
			return job, err
		}
		select {
		case <-over: // get its last state
		case <-nextQuestion(asked):
		case <-ctx.Done(): // the guest's client reports it
		}
	}
}

// KillJob sends SIGTERM, or SIGKILL if hard, to all processes of a job.
func (t *Terminals) KillJob(ctx context.Context, ref string, id config.JobID, hard bool) (Job, error) {
	return t.ask(ctx, "kill job", ref, id, func(jobs engine.Jobs) (engine.Job, error) {
		return jobs.KillJob(ctx, id, hard)
	})
}
