package install

import (
	"context"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// settle undoes an interrupted installation or completes an interrupted removal. If nothing was
// interrupted, it does not need the guest. The caller has the turn.
func (i *Installer) settle(ctx context.Context, a tools.Agent, plugin config.PluginID) error {
	r, ok := i.Find(a.ID, plugin)
	switch {
	case !ok || r.Doing == nil:
		return nil
	case r.Status == Uninstalling:
		return i.remove(ctx, a, r, "the sandbox")
	case r.Status == Ready:
		return i.complete(ctx, a, &r)
	}
	failure := &Failure{Step: r.Doing.Step, Kind: fault.Execution, Message: "the daemon ended in the middle of it", Advice: "Install it again.", Time: r.InstalledAt, Version: r.Plugin.Version}
	if r.Failure != nil {
		failure = r.Failure
	}
	return i.undo(ctx, a, r, failure)
}

// undo undoes an installation and records why it failed. If it cannot, settle tries again later.
func (i *Installer) undo(ctx context.Context, a tools.Agent, r Record, failure *Failure) error {
	r.Failure = failure
	if folderTouched(r) {
		if _, err := i.script(ctx, "undo installation", a, false, scriptGiveBack, "", a.Home, string(r.ID)); err != nil {
			_ = i.put(a.ID, r.ID, &r) // for the reason; if this fails too, settle names none
			return err
		}
	}
	back := r
	back.Status, back.Doing = Broken, nil
	if r.Doing.Before != nil {
		back = *r.Doing.Before
		back.Failure = failure
	}
	if err := i.register(a.ID, back); err != nil {
		return err
	}
	if err := i.put(a.ID, r.ID, &back); err != nil {
		if _, gone := i.Agent(a.ID); gone != nil {
			return i.Registry.Assign(a.ID, r.ID)
		}
		return err
	}
	i.begin(a, back.ID)
	return nil
}

// complete deletes the backup of the previous version after an installation.
func (i *Installer) complete(ctx context.Context, a tools.Agent, r *Record) error {
	if _, err := i.script(ctx, "delete previous version", a, false, scriptKeep, "", a.Home, string(r.ID)); err != nil {
		return err
	}
	r.Doing = nil
	return i.put(a.ID, r.ID, r)
}

// folderTouched reports whether an installation may have changed the plugin's folder.
func folderTouched(r Record) bool {
	return slices.Index(Steps(), r.Doing.Step) >= slices.Index(Steps(), Files)
}
