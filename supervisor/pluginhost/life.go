package pluginhost

import (
	"context"
	"iter"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/services"
	"osaurus-sandbox/tools"
)

// by is the cause of events.
const by machine.Cause = "a plugin"

// daemonFailed is the event of a daemon that is not restarted anymore.
const daemonFailed events.Kind = "plugin.daemon_failed"

// newLife returns the runner of plugins' daemons and event handlers, without plugins.
func (b *Host) newLife() *life.Life {
	vault := b.Tools.Vault
	return life.New(life.Options{
		Room: b.Tools.RunningRoom, Boot: b.boot, Silent: b.machine().Silent, Events: topics{b.Topics}, Secrets: keys{b.Options}.values,
		Tell: b.Lines.Append,
		Failed: func(a tools.Agent, plugin config.PluginID, why error) {
			b.note(daemonFailed, string(by), a, plugin, vault.Redacted(a.ID).Text(why.Error()))
		},
		Log: b.Log,
	})
}

// topics implements life.Events.
type topics struct{ *services.Topics }

var _ life.Events = topics{}

func (t topics) Last(ctx context.Context) (life.Seq, error) {
	last, err := t.Topics.Last(ctx)
	return life.Seq(last), err
}

func (t topics) Follow(ctx context.Context, agent config.AgentID, after life.Seq, patterns []plugins.Topics) iter.Seq2[life.Heard, error] {
	f := services.TopicFilter{Agent: agent, After: events.Seq(after)}
	for _, p := range patterns {
		f.Topics = append(f.Topics, services.TopicPattern(p))
	}
	return func(yield func(life.Heard, error) bool) {
		for e, err := range t.Read(ctx, f, true) {
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
