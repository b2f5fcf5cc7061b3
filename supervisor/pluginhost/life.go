package pluginhost

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins/life"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
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
		Room: b.Tools.RunningRoom, Boot: b.boot, Silent: b.machine().Silent, Events: b.Topics, Secrets: keys{b.Options}.values,
		Tell: b.Lines.Append,
		Failed: func(a tools.Agent, plugin config.PluginID, why error) {
			b.note(daemonFailed, string(by), a, plugin, vault.Redacted(a.ID).Text(why.Error()))
		},
		Log: b.Log,
	})
}
