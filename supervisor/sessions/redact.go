package sessions

import (
	"osaurus-sandbox/engine"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/agents"
)

// redactResult removes secrets from the output of a command in a session.
func redactResult(s *redact.Scrubber, r *engine.ShellResult) {
	outputs := []*engine.ShellOutput{&r.Stdout, &r.Stderr}
	for i := range r.Late {
		r.Late[i].Command = s.Clipped(r.Late[i].Command)
		outputs = append(outputs, &r.Late[i].Output)
	}
	for _, o := range outputs {
		if o.Omitted == 0 {
			o.Head = s.Part(o.Head, redact.Whole)
			continue
		}
		o.Head, o.Tail = s.Part(o.Head, redact.After), s.Part(o.Tail, redact.Before)
	}
	r.Dir, r.RestartCause = s.Text(r.Dir), s.Text(r.RestartCause)
}

// redactJob removes secrets from a job's command.
func (m *Manager) redactJob(agent agents.Agent, j engine.Job) engine.Job {
	s := m.Agents.Redacted(agent)
	for i, arg := range j.Args {
		j.Args[i] = s.Clipped(arg)
	}
	j.Label = s.Clipped(j.Label)
	return j
}
