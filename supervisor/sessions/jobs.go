package sessions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/machine"
)

// askAgain is the shortest interval between two waits for a job, so that a hostile guest that
// answers at once cannot keep this computer busy.
const askAgain = time.Second

// nextQuestion returns when to ask again.
func nextQuestion(asked time.Time) <-chan time.Time {
	return time.After(time.Until(asked.Add(askAgain)))
}

// StartJob implements engine.Jobs. The job keeps the guest running.
func (r Room) StartJob(ctx context.Context, cmd engine.JobCommand) (engine.Job, error) {
	m := r.manager
	l, agent, err := r.Enter(ctx)
	if err != nil {
		return engine.Job{}, err
	}
	var job engine.Job
	if cmd.Network, cmd.Address, err = agent.PluginNetwork(l, cmd.Plugin, cmd.Network); err == nil {
		job, err = l.Room(agent.User).StartJob(ctx, cmd)
	}
	if err == nil {
		_, err = config.ParseJobID(string(job.ID))
	}
	if err != nil {
		l.Release()
		return engine.Job{}, err
	}
	m.note(JobStarted, r.by, agent, map[string]string{"job": string(job.ID)})
	m.beside(func() {
		defer l.Release()
		m.follow(l, agent, job)
	})
	return m.redactJob(agent, job), nil
}

// follow records when a job has ended.
func (m *Manager) follow(l *machine.Lease, agent agents.Agent, job engine.Job) {
	fields := map[string]string{"job": string(job.ID)}
	for job.Running {
		asked := time.Now()
		next, err := l.Room(agent.User).WaitJob(m.life, job.ID, engine.MaxJobWait)
		switch {
		case m.life.Err() != nil:
			m.note(JobEnded, "the daemon ends, and the guest with it", agent, fields)
			return
		case err == nil && !next.Running:
			job = next
			continue
		case fault.KindOf(err) == fault.NotFound:
			m.note(JobEnded, "its room is gone", agent, fields)
			return
		}
		select {
		case <-l.Done():
			m.note(JobEnded, "the machine has ended", agent, fields)
			return
		case <-m.life.Done(): // handled above
		case <-nextQuestion(asked):
		}
	}
	maps.Copy(fields, map[string]string{"status": fmt.Sprint(job.Status()), "took": job.Ended.Sub(job.Started).Round(time.Millisecond).String()})
	for name, is := range map[string]bool{"oom": job.OOM, "pids": job.Pids, "killed": job.Killed} {
		if is {
			fields[name] = "true"
		}
	}
	m.note(JobEnded, machine.CauseGuest, agent, fields)
}

// Jobs implements engine.Jobs.
func (r Room) Jobs(ctx context.Context) ([]engine.Job, error) {
	l, agent, err := r.running()
	if l == nil {
		return nil, err
	}
	defer l.Release()
	jobs, err := l.Room(agent.User).Jobs(ctx)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return nil, err
	}
	for i, job := range jobs {
		jobs[i] = r.manager.redactJob(agent, job)
	}
	slices.SortStableFunc(jobs, func(x, y engine.Job) int { return y.Started.Compare(x.Started) })
	return jobs, nil
}

// ask calls the running guest about a job. Without a guest there are no jobs.
func (r Room) ask(op string, id config.JobID, question func(agents.Agent, engine.Jobs) (engine.Job, error)) (engine.Job, error) {
	l, agent, err := r.running()
	if err != nil {
		return engine.Job{}, err
	}
	if l == nil {
		return engine.Job{}, fault.Newf(fault.NotFound, op, string(id), "no guest runs").Advise("Jobs end with their guest; start it again.")
	}
	defer l.Release()
	job, err := question(agent, l.Room(agent.User))
	if err != nil {
		return engine.Job{}, err
	}
	return r.manager.redactJob(agent, job), nil
}

// Job implements engine.Jobs.
func (r Room) Job(ctx context.Context, id config.JobID) (engine.Job, error) {
	return r.ask("ask for job", id, func(_ agents.Agent, jobs engine.Jobs) (engine.Job, error) { return jobs.Job(ctx, id) })
}

// WaitJob implements engine.Jobs for a wait of any length; 0 waits until the job has ended.
func (r Room) WaitJob(ctx context.Context, id config.JobID, wait time.Duration) (engine.Job, error) {
	return r.ask("wait for job", id, func(_ agents.Agent, jobs engine.Jobs) (engine.Job, error) { return waitJob(ctx, jobs, id, wait) })
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

// KillJob implements engine.Jobs.
func (r Room) KillJob(ctx context.Context, id config.JobID, hard bool) (engine.Job, error) {
	return r.ask("kill job", id, func(_ agents.Agent, jobs engine.Jobs) (engine.Job, error) { return jobs.KillJob(ctx, id, hard) })
}

// TailJob implements engine.Jobs, without waiting.
func (r Room) TailJob(ctx context.Context, id config.JobID, offset uint64, _ time.Duration) (engine.JobTail, error) {
	return r.tail(ctx, id, Tail{Offset: offset})
}

// TailJobEnd implements engine.Jobs.
func (r Room) TailJobEnd(ctx context.Context, id config.JobID, n uint64) (engine.JobTail, error) {
	return r.tail(ctx, id, Tail{FromEnd: n})
}

func (r Room) tail(ctx context.Context, id config.JobID, tail Tail) (out engine.JobTail, err error) {
	out.Job, err = r.FollowJob(ctx, id, tail, func(part Part) error {
		if len(out.Data) == 0 {
			out.Offset = part.Offset
		}
		out.Data = append(out.Data, part.Data...)
		return nil
	})
	return out, err
}
