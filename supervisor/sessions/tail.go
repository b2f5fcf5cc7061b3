package sessions

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/secrets/redact"
)

// Tail says what is to be read of a job's output.
type Tail struct {
	Offset  uint64 // from this byte on,
	FromEnd uint64 // or, if not 0, from so many bytes before the end on
	Follow  bool   // until the job has ended
}

// Part is a part of a job's output, without the agent's secrets. Next is where
// in the output it ends: it may be longer or shorter than what it stands for.
type Part struct {
	Data         []byte
	Offset, Next uint64
}

// TailJob reads a job's output: what there is by now, or what there will be
// until it has ended. The first part is what there is by now, also where that is
// nothing. The job is as it was at last; if it has ended and was followed, it was
// read to its end.
func (t *Terminals) TailJob(ctx context.Context, ref string, id config.JobID, tail Tail, to func(Part) error) (Job, error) {
	agent, err := t.Agents.Get(ref)
	if err != nil {
		return Job{}, err
	}
	out := &tailing{to: to, secrets: t.Agents.Redact(ctx, agent)}
	// Of the very agent whose secrets these are, whoever is called so by now.
	return t.ask(ctx, "read output of job", string(agent.ID), id, func(jobs engine.Jobs) (engine.Job, error) {
		return out.follow(ctx, jobs, id, tail)
	})
}

// tailing is a job's output on its way to a reader, who is shown none of the secrets.
type tailing struct {
	to      func(Part) error
	secrets *redact.Live
	flow    *redact.Flow // from where it was read without a gap
	said    bool         // the first part, from which a reader knows what there was before
	shown   uint64       // up to this byte
}

// follow reads what is to be read.
func (t *tailing) follow(ctx context.Context, jobs engine.Jobs, id config.JobID, tail Tail) (engine.Job, error) {
	begin := func() (engine.JobTail, error) { return jobs.TailJob(ctx, id, tail.Offset, 0) }
	if tail.FromEnd > 0 {
		begin = func() (engine.JobTail, error) { return jobs.TailJobEnd(ctx, id, tail.FromEnd) }
	}
	var asked time.Time // when the last question waited that brought nothing, if it was the last
	part, err := begin()
	for written := part.Job.Written; err == nil; {
		if err := t.take(part); err != nil {
			return engine.Job{}, err
		}
		var wait time.Duration
		switch nothing := len(part.Data) == 0; {
		case nothing && !(tail.Follow && part.Job.Running), !tail.Follow && t.read() >= written:
			return part.Job, t.end()
		case nothing:
			select {
			case <-nextQuestion(asked):
			case <-ctx.Done(): // which the guest's client says in its words
			}
			asked, wait = time.Now(), engine.MaxJobWait
		default:
			asked = time.Time{}
		}
		part, err = jobs.TailJob(ctx, id, t.read(), wait)
	}
	return engine.Job{}, err
}

// read is up to where the output was read: the end of it may be held back.
func (t *tailing) read() uint64 { return t.shown + uint64(t.flow.Held()) }

// take shows what is next of the output.
func (t *tailing) take(part engine.JobTail) error {
	if t.flow != nil && part.Offset != t.read() { // what was between is not kept any more
		if err := t.end(); err != nil {
			return err
		}
		t.flow = nil
	}
	if t.flow == nil {
		t.flow, t.shown = flowFrom(t.secrets, part.Offset), part.Offset
	}
	next := part.Offset + uint64(len(part.Data))
	data := t.flow.Feed(nil, part.Data)
	return t.show(data, next-uint64(t.flow.Held()))
}

// end shows what is held back.
func (t *tailing) end() error {
	next := t.read()
	return t.show(t.flow.End(nil), next)
}

// show shows what stands for the output from where the last part ended.
func (t *tailing) show(data []byte, next uint64) error {
	part := Part{data, t.shown, next}
	t.shown = next
	if len(data) == 0 && t.said {
		return nil
	}
	t.said = true
	return t.to(part)
}

// flowFrom is a job's output from a byte on, up to where it is read.
func flowFrom(secrets *redact.Live, offset uint64) *redact.Flow {
	if offset == 0 {
		return redact.NewFlow(secrets, redact.After)
	}
	return redact.NewFlow(secrets, redact.Before|redact.After)
}
