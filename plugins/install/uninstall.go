package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// Uninstall removes a plugin's tools, folder, secrets and configuration. Its packages stay, since
// others may need them. If it fails half-way, it continues when the guest runs the next time; the
// tools are gone at once.
func (i *Installer) Uninstall(ctx context.Context, a tools.Agent, plugin config.PluginID, by string) error {
	const op = "uninstall plugin"
	end, err := i.turn(ctx, op, a, plugin)
	if err != nil {
		return err
	}
	defer end()
	r, err := i.get(op, a, plugin)
	if err != nil {
		return err
	}
	r.Status, r.Doing = Uninstalling, &Doing{Step: Remove} // even if an installation was interrupted
	if err := i.put(a.ID, plugin, &r); err != nil {
		return err
	}
	return i.remove(ctx, a, r, by)
}

// remove removes a plugin. It is idempotent. The caller has the turn.
func (i *Installer) remove(ctx context.Context, a tools.Agent, r Record, by string) error {
	if err := i.register(a.ID, r); err != nil {
		return err
	}
	err := i.Life.End(ctx, a.ID, r.ID)
	if err == nil {
		_, err = i.script(ctx, "remove plugin's folder", a, false, scriptClear, "", a.Home, string(r.ID))
	}
	if err == nil {
		err = i.Secrets.Forget(ctx, a, r.ID)
	}
	if err == nil {
		err = i.put(a.ID, r.ID, nil)
	}
	if err != nil {
		r.Failure = failureOf(Remove, r.Plugin.Version, err)
		return errors.Join(err, i.put(a.ID, r.ID, &r))
	}
	i.note(Uninstalled, a, r.ID, by, "")
	return nil
}

// Enable lists a plugin's tools and starts its daemon and handlers, or the opposite if on is false. The
// plugin stays installed.
func (i *Installer) Enable(ctx context.Context, a tools.Agent, plugin config.PluginID, on bool, by string) (Record, error) {
	op, what := "disable plugin", Disabled
	if on {
		op, what = "enable plugin", Enabled
	}
	end, err := i.turn(ctx, op, a, plugin)
	if err != nil {
		return Record{}, err
	}
	defer end()
	if err := i.settle(ctx, a, plugin); err != nil {
		return Record{}, err
	}
	r, err := i.get(op, a, plugin)
	switch {
	case err != nil || r.Disabled == !on:
		return r, err
	case r.Status != Ready:
		return r, fault.Newf(fault.Rejected, op, string(plugin), "it is not installed: its last installation failed").Advise("Install it again.")
	}
	before := r
	r.Disabled = !on
	if !on {
		if err := i.Life.End(ctx, a.ID, plugin); err != nil {
			return before, err
		}
	}
	if err := i.register(a.ID, r); err != nil {
		return before, err
	}
	if err := i.put(a.ID, plugin, &r); err != nil {
		return before, errors.Join(err, i.register(a.ID, before))
	}
	i.begin(a, plugin)
	i.note(what, a, plugin, by, "")
	return r, nil
}

// Forget removes the records of a deleted agent's plugins.
func (i *Installer) Forget(agent config.AgentID) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var err error
	s := i.stateOf(agent)
	for _, r := range s.list {
		err = errors.Join(err, i.Registry.Assign(agent, r.ID))
	}
	delete(i.agents, agent)
	path := i.Home.InstalledPlugins(agent)
	if failed := os.Remove(path); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		return errors.Join(err, fault.New(fault.Unavailable, "forget plugins", path, failed).Advise("Remove it by hand."))
	}
	for dir := filepath.Dir(path); dir != string(i.Home); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break // the desktop app has other files there
		}
	}
	return err
}
