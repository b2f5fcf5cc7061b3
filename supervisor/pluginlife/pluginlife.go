// Package pluginlife is what plugins live by in a home: the guest that runs, what its programs tell, their secrets and their log.
package pluginlife

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/loglines"
	"osaurus-sandbox/supervisor/terminal"
	"osaurus-sandbox/supervisor/topics"
	"osaurus-sandbox/supervisor/vault"
	"osaurus-sandbox/tools"
)

// by is who events say it was.
const by supervisor.Cause = "a plugin"

// Options are the parts of the home.
type Options struct {
	Agents    *agents.Agents
	Terminals *terminal.Terminals
	Topics    *topics.Topics
	Vault     *vault.Vault
	Lines     *loglines.Lines
	Record    agents.Recorder
	Log       *slog.Logger
}

// New returns what no plugin lives in yet.
func New(o Options) *life.Life {
	return life.New(life.Options{
		Rooms: rooms{o}, Events: heard{o.Topics}, Log: o.Log,
		Secrets: func(ctx context.Context, a tools.Agent, plugin config.PluginID, names []config.SecretName) ([]string, error) {
			return o.Vault.Environment(ctx, bridge.Caller{Agent: a.ID, Name: a.Name, User: a.User, Plugin: plugin}, names)
		},
		Tell: o.Vault.Cleaned(bridge.Services{Log: o.Lines}).Log.Append,
		Note: func(e life.Event) {
			o.Record.Note(events.Event{Kind: events.Kind(e.What), Cause: string(by), Fields: map[string]string{
				"agent": string(e.Agent.Name), "id": string(e.Agent.ID), "plugin": string(e.Plugin), "detail": o.Vault.Redacted(e.Agent.ID).Text(e.Detail),
			}})
		},
	})
}

// rooms are those of the guest that runs.
type rooms struct{ Options }

func (r rooms) Exec(ctx context.Context, a tools.Agent, cmd guest.Command) (guest.Running, error) {
	return r.Agents.ExecRunning(ctx, string(a.ID), cmd)
}

func (r rooms) StartJob(ctx context.Context, a tools.Agent, cmd guest.JobCommand) (guest.Job, error) {
	j, err := r.Terminals.StartJobRunning(ctx, string(a.ID), cmd, by)
	return j.Job, err
}

func (r rooms) WaitJob(ctx context.Context, a tools.Agent, id config.JobID, wait time.Duration) (guest.Job, error) {
	j, err := r.Terminals.WaitJob(ctx, string(a.ID), id, wait)
	return j.Job, err
}

func (r rooms) KillJob(ctx context.Context, a tools.Agent, id config.JobID, hard bool) (guest.Job, error) {
	j, err := r.Terminals.KillJob(ctx, string(a.ID), id, hard)
	return j.Job, err
}

func (r rooms) TailJob(ctx context.Context, a tools.Agent, id config.JobID, bytes uint64) (guest.JobTail, error) {
	var end guest.JobTail
	_, err := r.Terminals.TailJob(ctx, string(a.ID), id, terminal.Tail{FromEnd: bytes}, func(part terminal.Part) error {
		end.Data = append(end.Data, part.Data...)
		return nil
	})
	return end, err
}

// heard is what programs of agents tell.
type heard struct{ topics *topics.Topics }

func (h heard) Last(ctx context.Context) (life.Seq, error) {
	last, err := h.topics.Last(ctx)
	return life.Seq(last), err
}

func (h heard) Follow(ctx context.Context, agent config.AgentID, after life.Seq, patterns []plugins.Topics) iter.Seq2[life.Heard, error] {
	f := topics.Filter{Agent: agent, After: events.Seq(after)}
	for _, p := range patterns {
		f.Topics = append(f.Topics, topics.Pattern(p))
	}
	return func(yield func(life.Heard, error) bool) {
		for e, err := range h.topics.Subscribe(ctx, f) {
			out := life.Heard{Seq: life.Seq(e.Seq), Time: e.Time, Topic: e.Topic, Source: e.Source, Payload: e.Payload}
			if e.Gap != nil {
				out.Lost = int64(e.Gap.To-e.Gap.From) + 1
			}
			if !yield(out, err) {
				return
			}
		}
	}
}
