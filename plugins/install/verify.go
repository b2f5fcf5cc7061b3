package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

// verifyTime bounds a verification in the background, which may install several plugins again.
const verifyTime = 30 * time.Minute

// Repair says what Verify repairs.
type Repair string

// Changed files are overwritten only on request: the agent may have changed them on purpose.
const (
	Nothing Repair = "nothing" // only report
	Missing Repair = "missing" // restore missing files, packages and setups
	All     Repair = "all"     // and overwrite changed files
)

// Report is the result of verifying a plugin.
type Report struct {
	Plugin config.PluginID
	// Problems describe the damage that was found.
	Problems []string
	// Repaired says that all of it was repaired. Err is why the repair failed.
	Repaired bool
	Err      error
}

// Sound reports whether the plugin is intact.
func (r Report) Sound() bool { return len(r.Problems) == 0 || r.Repaired }

// Verify checks and repairs an agent's plugins, all of them if which is empty. It first settles
// interrupted changes. It starts the guest if necessary.
func (i *Installer) Verify(ctx context.Context, a tools.Agent, repair Repair, by string, which ...config.PluginID) ([]Report, error) {
	const op = "verify plugins"
	for _, id := range which {
		if _, err := i.get(op, a, id); err != nil {
			return nil, err
		}
	}
	unsettled, err := i.settleAll(ctx, a, which)
	if err != nil {
		return nil, err
	}
	all, err := i.List(a.ID)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r Record) bool {
		return r.Status != Ready || len(which) > 0 && !slices.Contains(which, r.ID)
	})
	if len(all) == 0 {
		return unsettled, nil
	}
	var ids []config.PluginID
	var packages, files []string
	for _, r := range all {
		ids, packages = append(ids, r.ID), append(packages, r.Packages...)
		for name := range r.Plugin.Files {
			files = append(files, string(r.ID)+"/"+string(name))
		}
	}
	slices.Sort(packages)
	slices.Sort(files)
	seen, err := i.look(ctx, a, ids, slices.Compact(packages), files)
	if err != nil {
		return nil, err
	}
	for _, id := range seen.left {
		if err := i.sweep(ctx, a, id); err != nil {
			return nil, err
		}
	}
	reports := unsettled
	var sound []config.PluginID
	for _, r := range all {
		found := seen.damageOf(r)
		report := Report{Plugin: r.ID, Problems: found.problems()}
		elsewhere := false
		if len(report.Problems) > 0 {
			if err := i.here(ctx); err != nil {
				return nil, err
			}
			report.Repaired, elsewhere, report.Err = i.repair(ctx, a, r, found, repair, by)
		}
		if report.Sound() {
			sound = append(sound, r.ID)
		}
		if !elsewhere {
			i.tell(a, r, report, by)
		}
		reports = append(reports, report)
	}
	return reports, i.stamp(a.ID, sound)
}

// settleAll settles interrupted changes and reports those that it cannot settle.
func (i *Installer) settleAll(ctx context.Context, a tools.Agent, which []config.PluginID) ([]Report, error) {
	list, err := i.List(a.ID)
	var reports []Report
	for _, r := range list {
		if r.Doing == nil || len(which) > 0 && !slices.Contains(which, r.ID) {
			continue
		}
		end, err := i.turn(ctx, "settle plugin", a, r.ID)
		if err != nil {
			return nil, err
		}
		err = i.settle(ctx, a, r.ID)
		end()
		if err != nil {
			reports = append(reports, Report{Plugin: r.ID, Problems: []string{"its last change is neither complete nor undone"}, Err: err})
		}
	}
	return reports, err
}

// damage is what is wrong with a plugin.
type damage struct {
	reset    bool // everything outside of the home is gone
	folder   bool // the folder is missing
	packages []string
	missing  []plugins.FilePath
	changed  []plugins.FilePath
}

// damageOf compares a plugin with what was found.
func (s inspection) damageOf(r Record) (l damage) {
	l.reset = s.layer != r.Layer && (r.Plugin.Setup != "" || len(r.Packages) > 0)
	for _, p := range r.Packages {
		if !s.packages[p] {
			l.packages = append(l.packages, p)
		}
	}
	if l.folder = !s.folders[r.ID]; l.folder {
		return l // a link in its place may lead to other files
	}
	for _, name := range slices.Sorted(maps.Keys(r.Plugin.Files)) {
		switch found, there := s.digests[string(r.ID)+"/"+string(name)]; {
		case !there:
			l.missing = append(l.missing, name)
		case found != digest([]byte(r.Plugin.Files[name])):
			l.changed = append(l.changed, name)
		}
	}
	return l
}

// onlyChanged reports whether nothing is missing.
func (l damage) onlyChanged() bool {
	return !l.reset && !l.folder && len(l.packages) == 0 && len(l.missing) == 0
}

func (l damage) problems() (list []string) {
	say := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	say(l.reset, "the agent was reset since it was set up")
	say(l.folder, "its folder is gone")
	say(len(l.packages) > 0, "the package %s is not installed", strings.Join(l.packages, ", "))
	say(len(l.missing) > 0, "gone: %s", some(l.missing))
	say(len(l.changed) > 0, "changed: %s", some(l.changed))
	return list
}

// some names the first few files and counts the rest.
func some(files []plugins.FilePath) string {
	const shown = 5
	var b strings.Builder
	for n, name := range files[:min(len(files), shown)] {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	if more := len(files) - shown; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// repair installs a plugin again, without asking for secrets. Files that the agent has
// changed stay, except for All. A plugin that somebody else has changed in the meantime is
// left alone: elsewhere is true then.
func (i *Installer) repair(ctx context.Context, a tools.Agent, r Record, l damage, how Repair, by string) (repaired, elsewhere bool, err error) {
	keep := l.changed
	if how == All {
		keep = nil
	}
	if how == Nothing || how == Missing && l.onlyChanged() {
		return false, false, nil
	}
	const op = "repair plugin"
	end, err := i.turn(ctx, op, a, r.ID)
	if err != nil {
		return false, false, err
	}
	defer end()
	now, err := i.get(op, a, r.ID)
	if err != nil || now.Status != Ready || !now.InstalledAt.Equal(r.InstalledAt) {
		return true, true, nil
	}
	_, err = i.reinstall(ctx, op, a, r.ID, How{By: by, WithoutSecrets: true, keep: keep})
	return err == nil && len(keep) == 0, false, err
}

// sweep deletes a backup that was left over, unless a change is in progress that needs it.
func (i *Installer) sweep(ctx context.Context, a tools.Agent, plugin config.PluginID) error {
	const op = "forget the version before"
	end, err := i.turn(ctx, op, a, plugin)
	if err != nil {
		return err
	}
	defer end()
	if r, ok := i.Find(a.ID, plugin); !ok || r.Doing != nil {
		return nil
	}
	_, err = i.script(ctx, op, a, false, scriptKeep, nil, a.Home, string(plugin))
	return err
}

// tell emits the event for a report.
func (i *Installer) tell(a tools.Agent, r Record, report Report, by string) {
	detail := strings.Join(report.Problems, "; ")
	switch {
	case len(report.Problems) == 0:
	case report.Repaired:
		i.note(Repaired, a, r.ID, by, detail)
	default:
		if report.Err != nil {
			detail += ": " + clip(report.Err.Error())
		}
		i.note(Damaged, a, r.ID, by, detail)
	}
}

// stamp records which plugins this release has found intact.
func (i *Installer) stamp(agent config.AgentID, sound []config.PluginID) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(agent)
	next, changed := records{list: slices.Clone(s.list), unread: s.unread}, false
	for n, r := range next.list {
		if r.Status != Ready || !slices.Contains(sound, r.ID) || r.VerifiedBy == i.Program && !r.damaged() {
			continue
		}
		next.list[n].VerifiedBy, changed = i.Program, true
		if r.damaged() {
			next.list[n].Failure = nil
		}
	}
	if !changed {
		return nil
	}
	if err := next.save(i.Home.InstalledPlugins(agent)); err != nil {
		return err
	}
	s.records = next
	return nil
}

// damaged reports whether the last repair failed.
func (r Record) damaged() bool { return r.Failure != nil && r.Failure.Step == Verify }

// round is a verification of an agent's plugins. All callers of Ready share it.
type round struct {
	boot string
	done chan struct{}
}

// Ready waits until an agent's plugins have been verified in the running guest, once per boot.
// It fails only if the guest does not start: plugins that cannot be repaired do not block others.
func (i *Installer) Ready(ctx context.Context, a tools.Agent) error {
	boot := i.Rooms.Boot()
	if boot == "" {
		if err := i.Rooms.Start(ctx); err != nil {
			return err
		}
		boot = i.Rooms.Boot()
	}
	return i.await(ctx, a, boot)
}

// ReadyIn is Ready for one boot. It starts no guest, and reports whether the plugins were verified.
func (i *Installer) ReadyIn(ctx context.Context, a tools.Agent, boot string) bool {
	if i.Rooms.Boot() != boot || i.await(ctx, a, boot) != nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(a.ID)
	return s.verified == boot || s.broken != nil
}

// await waits until an agent's plugins were verified in a boot.
func (i *Installer) await(ctx context.Context, a tools.Agent, boot string) error {
	r := i.join(a, boot)
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fault.Wrap("verify plugins", string(a.Name), ctx.Err()).Advise("Try again in a while: they are being repaired.")
	}
}

// join returns the running verification, or starts one. It returns nil if none is necessary.
func (i *Installer) join(a tools.Agent, boot string) *round {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(a.ID)
	switch {
	case s.verified == boot || s.broken != nil || i.life.Err() != nil:
		return nil
	case s.looking != nil && s.looking.boot == boot:
		return s.looking
	}
	r := &round{boot: boot, done: make(chan struct{})}
	s.looking = r
	i.work.Go(func() { i.goRound(a, s, r) })
	return r
}

// goRound verifies an agent's plugins, and then starts their daemons and handlers.
func (i *Installer) goRound(a tools.Agent, s *state, r *round) {
	defer close(r.done)
	ctx, cancel := context.WithTimeout(context.WithValue(i.life, during{}, r.boot), verifyTime)
	defer cancel()
	_, err := i.Verify(ctx, a, Missing, "the sandbox")
	if err != nil && i.life.Err() == nil {
		i.Log.Warn("an agent's plugins were not verified", "agent", a.Name, "error", err)
	}
	i.mu.Lock()
	if s.looking == r {
		if s.looking = nil; err == nil {
			s.verified = r.boot
		}
	}
	list := s.list
	i.mu.Unlock()
	if err != nil {
		return
	}
	for _, r := range list {
		// In the background: a change of the plugin may take long, or even wait for this round.
		i.work.Go(func() { i.beginInTurn(a, r.ID) })
	}
}

// beginInTurn takes the turn and calls begin, since the plugin may have changed in the meantime.
func (i *Installer) beginInTurn(a tools.Agent, plugin config.PluginID) {
	end, err := i.turn(i.life, "begin plugin", a, plugin)
	if err != nil {
		return // closed
	}
	defer end()
	i.begin(a, plugin)
}

// during is the context key for the boot that background work belongs to. Such work must not
// start a guest that somebody has stopped.
type during struct{}

// here returns an error if that boot is over.
func (i *Installer) here(ctx context.Context) error {
	if boot, bound := ctx.Value(during{}).(string); bound && i.Rooms.Boot() != boot {
		return fault.Newf(fault.Unavailable, "look after plugins", "", "the guest has ended").Advise("They are looked after when it starts again.")
	}
	return nil
}

// Reset makes the next Ready verify an agent's plugins again, because the agent was reset.
func (i *Installer) Reset(agent config.AgentID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s := i.agents[agent]; s != nil {
		s.verified, s.looking = "", nil
	}
}
