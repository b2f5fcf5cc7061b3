package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

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
	for _, id := range which {
		if _, err := i.get("verify plugins", a, id); err != nil {
			return nil, err
		}
	}
	reports, err := i.settleAll(ctx, a, which)
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
		return reports, nil
	}
	seen, err := i.look(ctx, a, all)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		found := seen.damageOf(r)
		report := Report{Plugin: r.ID, Problems: found.problems}
		if len(report.Problems) > 0 {
			if err := i.checkBoot(ctx); err != nil {
				return nil, err
			}
			report.Repaired, report.Err = i.repair(ctx, a, r, found, repair, by)
		}
		if !report.Sound() {
			detail := strings.Join(report.Problems, "; ")
			if report.Err != nil {
				detail += ": " + clip(report.Err.Error())
			}
			i.note(Damaged, a, r.ID, by, detail)
		}
		reports = append(reports, report)
	}
	return reports, nil
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

// inspection is what a room contains of an agent's plugins. It comes from the room's own
// programs, so it finds accidental damage but proves nothing against the agent.
type inspection struct {
	layer    string
	folders  map[config.PluginID]bool
	packages map[string]bool
	digests  map[string]string // of existing files, by their paths in the folder of plugins
}

// look inspects plugins and packages with one command, and the plugins' files with a few requests.
func (i *Installer) look(ctx context.Context, a tools.Agent, list []Record, packages ...string) (inspection, error) {
	args := []string{LayerFile, a.Home, fmt.Sprint(len(list))}
	var files []string
	for _, r := range list {
		args, packages = append(args, string(r.ID)), append(packages, r.Packages...)
		for name := range r.Plugin.Files {
			files = append(files, string(r.ID)+"/"+string(name))
		}
	}
	slices.Sort(packages)
	text, err := i.script(ctx, "look at plugins", a, false, scriptLook, "", append(args, slices.Compact(packages)...)...)
	s := parseInspection(text)
	if err != nil || len(files) == 0 {
		return s, err
	}
	return s, i.readDigests(ctx, a, files, s.digests)
}

// readsAtOnce is how many files are read at once, which hides the latency of each.
const readsAtOnce = 8

// readDigests adds the digests of the plugins' files that exist. One that cannot be read has an empty
// digest.
func (i *Installer) readDigests(ctx context.Context, a tools.Agent, files []string, to map[string]string) error {
	room, part := i.Room(a), engine.FilePart{Limit: plugins.MaxFile, OrNothing: true}
	var mu sync.Mutex
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for _, name := range files {
		reads.Go(func() error {
			r, err := room.ReadFile(ctx, engine.File{Root: a.Home, Path: folderName + "/" + name}, part, io.Discard)
			switch kind := fault.KindOf(err); {
			case kind == fault.NotFound:
				return nil
			case err != nil && kind != fault.InvalidArgs && kind != fault.Rejected:
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			to[name] = hex.EncodeToString(r.SHA256)
			return nil
		})
	}
	return reads.Wait()
}

// parseInspection parses the output of scriptLook. It ignores unknown lines, so what they report
// counts as missing.
func parseInspection(text string) inspection {
	s := inspection{folders: map[config.PluginID]bool{}, packages: map[string]bool{}, digests: map[string]string{}}
	for line := range strings.Lines(text) {
		what, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case what == "layer" && layerText.MatchString(rest):
			s.layer = rest
		case what == "folder":
			s.folders[config.PluginID(rest)] = true
		case what == "package":
			s.packages[rest] = true
		}
	}
	return s
}

// damage is what is wrong with a plugin.
type damage struct {
	problems []string
	missing  bool               // something is missing
	changed  []plugins.FilePath // files
}

// damageOf compares a plugin with what was found.
func (s inspection) damageOf(r Record) (d damage) {
	lack := func(format string, args ...any) {
		d.missing, d.problems = true, append(d.problems, fmt.Sprintf(format, args...))
	}
	if s.layer != r.Layer && (r.Plugin.Setup != "" || len(r.Packages) > 0) {
		lack("the agent was reset since it was set up")
	}
	if gone := slices.DeleteFunc(slices.Clone(r.Packages), func(p string) bool { return s.packages[p] }); len(gone) > 0 {
		lack("the package %s is not installed", strings.Join(gone, ", "))
	}
	if !s.folders[r.ID] { // a link in its place may lead to other files
		lack("its folder is gone")
		return d
	}
	var gone []plugins.FilePath
	for name, text := range r.Plugin.Files {
		sum := sha256.Sum256([]byte(text))
		switch found, there := s.digests[string(r.ID)+"/"+string(name)]; {
		case !there:
			gone = append(gone, name)
		case found != hex.EncodeToString(sum[:]):
			d.changed = append(d.changed, name)
		}
	}
	if len(gone) > 0 {
		lack("gone: %s", some(gone))
	}
	if len(d.changed) > 0 {
		d.problems = append(d.problems, "changed: "+some(d.changed))
	}
	return d
}

// some names the first few files and counts the rest.
func some(files []plugins.FilePath) string {
	const shown = 5
	slices.Sort(files)
	text := string(files[0])
	for _, name := range files[1:min(len(files), shown)] {
		text += ", " + string(name)
	}
	if more := len(files) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// repair installs a plugin again, without asking for secrets. Files that the agent has
// changed stay, except for All.
func (i *Installer) repair(ctx context.Context, a tools.Agent, r Record, d damage, how Repair, by string) (repaired bool, err error) {
	if how == Nothing || how == Missing && !d.missing {
		return false, nil
	}
	keep := d.changed
	if how == All {
		keep = nil
	}
	end, err := i.turn(ctx, "repair plugin", a, r.ID)
	if err != nil {
		return false, err
	}
	defer end()
	now, ok := i.Find(a.ID, r.ID)
	if !ok || now.Status != Ready || !now.InstalledAt.Equal(r.InstalledAt) {
		return true, nil // somebody else has changed it in the meantime
	}
	next := Record{ID: r.ID, Plugin: now.Plugin, Agent: a.ID, Hash: now.Hash}
	if _, err = i.install(ctx, a, next, How{By: by, WithoutSecrets: true, keep: keep}); err != nil || len(keep) > 0 {
		return false, err
	}
	i.note(Repaired, a, r.ID, by, strings.Join(d.problems, "; "))
	return true, nil
}
