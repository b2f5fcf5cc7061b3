package sessions

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/agents"
)

// Tail selects a part of a job's output.
type Tail struct {
	Offset  uint64 // from this byte on,
	FromEnd uint64 // or, if not 0, from so many bytes before the end on
	Follow  bool   // until the job has ended
}

// Part is a part of a job's output with secrets redacted. Next is where it
// ends in the original output, whose length may differ.
type Part struct {
	Data         []byte
	Offset, Next uint64
}

// FollowJob passes a job's output to to, up to now or until the job has ended. The first part is
// what there is by now, which may be nothing. FollowJob returns the job's last state.
func (r Room) FollowJob(ctx context.Context, id config.JobID, tail Tail, to func(Part) error) (engine.Job, error) {
	return r.ask("read output of job", id, func(agent agents.Agent, jobs engine.Jobs) (engine.Job, error) {
		out := &tailing{to: to, secrets: r.manager.Agents.Redact(ctx, agent)}
		return out.follow(ctx, jobs, id, tail)
	})
}

// tailing redacts a job's output on its way to a reader.
type tailing struct {
	to      func(Part) error
	secrets *redact.Live
	flow    *redact.Flow // from where it was read without a gap
	said    bool         // the first part was sent
	shown   uint64       // up to this byte
}

// follow reads the output.
func (t *tailing) follow(ctx context.Context, jobs engine.Jobs, id config.JobID, tail Tail) (engine.Job, error) {
	begin := func() (engine.JobTail, error) { return jobs.TailJob(ctx, id, tail.Offset, 0) }
	if tail.FromEnd > 0 {
		begin = func() (engine.JobTail, error) { return jobs.TailJobEnd(ctx, id, tail.FromEnd) }
	}
	var asked time.Time // start of the last wait, if it returned nothing
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
			case <-ctx.Done(): // the guest's client reports it
			}
			asked, wait = time.Now(), engine.MaxJobWait
		default:
			asked = time.Time{}
		}
		part, err = jobs.TailJob(ctx, id, t.read(), wait)
	}
	return engine.Job{}, err
}

// read returns how far the output was read; its end may be held back.
func (t *tailing) read() uint64 { return t.shown + uint64(t.flow.Held()) }

// take handles the next part of the output.
func (t *tailing) take(part engine.JobTail) error {
	if t.flow != nil && part.Offset != t.read() { // the log dropped what was between
		if err := t.end(); err != nil {
			return err
		}
		t.flow = nil
	}
	if t.flow == nil {
		ends := redact.After
		if part.Offset > 0 {
			ends |= redact.Before
		}
		t.flow, t.shown = redact.NewFlow(t.secrets, ends), part.Offset
	}
	next := part.Offset + uint64(len(part.Data))
	data := t.flow.Feed(nil, part.Data)
	return t.show(data, next-uint64(t.flow.Held()))
}

// end flushes what is held back.
func (t *tailing) end() error {
	next := t.read()
	return t.show(t.flow.End(nil), next)
}

// show passes on output that ends at next.
func (t *tailing) show(data []byte, next uint64) error {
	part := Part{data, t.shown, next}
	t.shown = next
	if len(data) == 0 && t.said {
		return nil
	}
	t.said = true
	return t.to(part)
}
