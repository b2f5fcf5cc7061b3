package install

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
	"osaurus-sandbox/tools/packages"
)

const (
	// setupTime bounds a setup, which may download files.
	setupTime = 5 * time.Minute
	// maxSetup bounds the setup output that an error quotes, in bytes.
	maxSetup = 8 << 10
	// UndoTime bounds the undoing of a failed installation.
	UndoTime = 3 * time.Minute
	// executable and usual are the modes of plugins' files.
	executable, usual = 0o755, 0o644
)

// How contains the options of an installation.
type How struct {
	By string // who asks, for the event
	// WithoutSecrets installs the plugin even if secrets are missing, and asks nobody. The
	// record lists them.
	WithoutSecrets bool
	// Tell, if not nil, receives progress.
	Tell func(Progress)

	keep []plugins.FilePath // files that the agent has changed and that stay
}

// Progress is the progress of an installation.
type Progress struct {
	Step      Step
	Done, All int    // number of steps
	Text      string // what happens in the step; may be empty
}

// Install installs or updates a plugin with a valid recipe. A failed installation is undone, and the record says
// why. Files in the plugin's folder that are not in the recipe stay.
func (i *Installer) Install(ctx context.Context, a tools.Agent, recipe plugins.Recipe, how How) (Record, error) {
	id, err := recipe.ID()
	if err != nil {
		return Record{}, err
	}
	hash, err := recipe.Hash()
	if err != nil {
		return Record{}, err
	}
	end, err := i.turn(ctx, "install plugin", a, id)
	if err != nil {
		return Record{}, err
	}
	defer end()
	return i.install(ctx, a, Record{ID: id, Plugin: recipe, Agent: a.ID, Hash: hash}, how)
}

// transaction is an installation in progress.
type transaction struct {
	*Installer
	How
	agent   tools.Agent
	record  Record
	before  *Record // the installed version, or nil
	manager packages.Manager
	steps   int // completed steps
}

// install installs a plugin. The caller has the turn.
func (i *Installer) install(ctx context.Context, a tools.Agent, r Record, how How) (Record, error) {
	if err := i.settle(ctx, a, r.ID); err != nil {
		return Record{}, err
	}
	t := &transaction{Installer: i, How: how, agent: a, record: r}
	if before, ok := i.Find(a.ID, r.ID); ok && before.Status == Ready {
		t.before = &before
		t.record.Disabled = before.Disabled
	}
	t.record.InstalledAt, t.record.Status = time.Now().UTC().Truncate(time.Second), Installing
	if err := i.Registry.Free(a.ID, r.ID, i.toolsOf(t.record)...); err != nil {
		return Record{}, err
	}
	err := t.walk(ctx)
	if err == nil {
		i.finish(context.WithoutCancel(ctx), a, t)
		return t.record, nil
	}
	// Undo it even if the caller has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTime)
	defer cancel()
	failure := failureOf(t.at(), t.record.Plugin.Version, err)
	i.note(Failed, a, r.ID, how.By, string(failure.Step)+": "+failure.Message)
	if undone := i.undo(ctx, a, t.record, failure); undone != nil {
		i.Log.Warn("a plugin's failed installation will be undone later", "agent", a.Name, "plugin", r.ID, "error", undone)
	}
	return Record{}, fault.Newf(fault.KindOf(err), "install plugin", string(r.ID), "%s: %w", failure.Step, err).Advise(fault.AdviceOf(err))
}

// at returns the current step.
func (t *transaction) at() Step { return Steps()[min(t.steps, len(Steps())-1)] }

// walk performs the steps, and gives up between two of them if the context has ended.
func (t *transaction) walk(ctx context.Context) error {
	for n, do := range []func(context.Context) error{t.validate, t.start, t.enter, t.depend, t.write, t.ask, t.setUp, t.offer} {
		t.steps = n
		t.record.Doing = &Doing{Step: t.at(), Before: t.before} // first, because undo needs it
		t.say("")
		if err := ctx.Err(); err != nil {
			return fault.New(fault.KindOf(err), "install plugin", string(t.record.ID), context.Cause(ctx))
		}
		if err := t.checkBoot(ctx); err != nil {
			return err
		}
		if err := t.put(t.agent.ID, t.record.ID, &t.record); err != nil {
			return err
		}
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) say(text string) {
	if t.Tell != nil {
		t.Tell(Progress{Step: t.at(), Done: t.steps, All: len(Steps()), Text: text})
	}
}

// validate ends the daemon and handlers of the previous version. The recipe was validated before.
func (t *transaction) validate(ctx context.Context) error {
	if t.before == nil {
		return nil
	}
	return t.Life.End(ctx, t.agent.ID, t.record.ID)
}

func (t *transaction) start(ctx context.Context) error { return t.Start(ctx) }

// enter makes the agent's room, names its layer and finds its package manager.
func (t *transaction) enter(ctx context.Context) error {
	text, err := t.script(ctx, "look into room", t.agent, true, scriptMark, "", LayerFile, newLayer())
	if err != nil {
		return err
	}
	layer, which, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if !layerText.MatchString(layer) {
		return fault.Newf(fault.Execution, "look into room", string(t.agent.Name), "%s does not hold the name of a layer", LayerFile).
			Advise("Reset the agent: `osaurus-sandbox agent reset " + string(t.agent.Name) + "`.")
	}
	t.record.Layer, t.manager = layer, packages.Manager(which)
	return nil
}

// depend installs the recipe's packages. It skips installed ones if no version is given, so that
// packages of the base image need no network.
func (t *transaction) depend(ctx context.Context) error {
	wanted := packagesFor(t.manager, t.record.Plugin.Dependencies)
	if len(wanted) == 0 {
		return nil
	}
	seen, err := t.look(ctx, t.agent, nil, names(wanted)...)
	if err != nil {
		return err
	}
	lacking := slices.DeleteFunc(slices.Clone(wanted), func(spec string) bool {
		name := aName.FindString(spec)
		return spec == name && seen.packages[name]
	})
	call := &tools.Call{Agent: t.agent, Tell: func(p tools.Progress) { t.say(p.Text) }}
	for some := range slices.Chunk(lacking, packages.MaxSpecs) {
		if _, err := t.Packages(ctx, call, some); err != nil {
			return err
		}
	}
	if len(lacking) > 0 {
		seen, err = t.look(ctx, t.agent, nil, names(wanted)...)
	}
	// Virtual packages cannot be found, so they are not recorded.
	t.record.Packages = slices.DeleteFunc(names(wanted), func(name string) bool { return !seen.packages[name] })
	return err
}

// write makes a backup of the plugin's folder and writes the recipe's files.
func (t *transaction) write(ctx context.Context) error {
	files, replaced := map[plugins.FilePath]string{}, map[plugins.FilePath]string{}
	maps.Copy(files, t.record.Plugin.Files)
	maps.Copy(replaced, files)
	if t.before != nil {
		maps.Copy(replaced, t.before.Plugin.Files)
	}
	for _, name := range t.keep {
		delete(files, name)
		delete(replaced, name)
	}
	var old strings.Builder // separated by NUL, for xargs
	for name := range replaced {
		old.WriteString(string(name) + "\x00")
	}
	if _, err := t.script(ctx, "make plugin's folder", t.agent, false, scriptTake, old.String(), t.agent.Home, string(t.record.ID)); err != nil {
		return err
	}
	for n, name := range slices.Sorted(maps.Keys(files)) {
		t.say(fmt.Sprintf("%s (%d of %d)", name, n+1, len(files)))
		if err := t.writeFile(ctx, t.agent, t.record, name); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes one of a plugin's files as the agent. It follows no link out of the folder.
func (i *Installer) writeFile(ctx context.Context, a tools.Agent, r Record, name plugins.FilePath) error {
	text := []byte(r.Plugin.Files[name])
	mode := uint32(usual)
	if bytes.HasPrefix(text, []byte("#!")) {
		mode = executable
	}
	if err := i.checkBoot(ctx); err != nil {
		return err
	}
	_, err := i.Room(a).WriteFile(ctx, engine.File{Root: folderOf(a, r.ID), Path: string(name)}, engine.FileWrite{
		Parents: true, Mode: mode, Content: text,
	})
	return err
}

// ask asks a person for the plugin's missing secrets.
func (t *transaction) ask(ctx context.Context) error {
	for _, name := range t.record.Plugin.Secrets {
		has, err := t.Secrets.Has(ctx, t.agent, t.record.ID, name)
		switch {
		case t.WithoutSecrets && (err != nil || !has):
			t.record.Without = append(t.record.Without, name)
			continue
		case err != nil:
			return err
		case has:
			continue
		}
		t.say(fmt.Sprintf("it needs the secret %s: answer with `osaurus-sandbox prompt watch`", name))
		why := fmt.Sprintf("The plugin %q needs it. Cancel, and it is not installed.", t.record.Plugin.Name)
		if err := t.Secrets.Ask(ctx, t.agent, t.record.ID, name, why); err != nil {
			return fault.Wrap("ask for", string(name), err).Advise("Set it with `osaurus-sandbox secret set`, or install the plugin without it: --without-secrets.")
		}
	}
	return nil
}

// setUp runs the recipe's setup.
func (t *transaction) setUp(ctx context.Context) error {
	const op = "set up plugin"
	if t.record.Plugin.Setup == "" {
		return nil
	}
	var out bytes.Buffer
	cmd := Command(t.agent, t.record.ID, t.record.Plugin.Setup)
	cmd.Stdout, cmd.Stderr, cmd.Timeout, cmd.MaxOutput = &out, &out, setupTime, maxSetup
	may := t.record.Plugin
	may.Secrets = slices.DeleteFunc(slices.Clone(may.Secrets), func(name config.SecretName) bool { return slices.Contains(t.record.Without, name) })
	if err := t.Life.Command(ctx, t.agent, t.record.ID, may, true, &cmd); err != nil {
		return err
	}
	p, err := t.Room(t.agent).Exec(ctx, cmd)
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	said := strings.TrimSpace(strings.ToValidUTF8(out.String(), "\uFFFD"))
	switch {
	case err != nil:
		return err
	case exit.TimedOut:
		return fault.Newf(fault.Timeout, op, string(t.record.ID), "it did not finish within %v: %s", setupTime, said)
	case exit.Status() != 0:
		return fault.Newf(fault.Execution, op, string(t.record.ID), "exit code %d: %s", exit.Status(), said).Advise(`Repair "setup" in the plugin's recipe, or what it says is missing.`)
	}
	return nil
}

// offer registers the tools and marks the plugin as ready.
func (t *transaction) offer(context.Context) error {
	done := t.record
	done.Status, done.Doing = Ready, &Doing{Step: Tools} // until the backup is deleted
	if err := t.register(t.agent.ID, done); err != nil {
		return err
	}
	if err := t.put(t.agent.ID, done.ID, &done); err != nil {
		return err
	}
	t.record = done
	return nil
}

// finish deletes the backup of the previous version and starts the daemon.
func (i *Installer) finish(ctx context.Context, a tools.Agent, t *transaction) {
	what := Installed
	if t.before != nil {
		what = Updated
	}
	i.note(what, a, t.record.ID, t.By, t.record.Plugin.Version)
	if err := i.complete(ctx, a, &t.record); err != nil {
		i.Log.Warn("the previous version of a plugin is deleted later", "agent", a.Name, "plugin", t.record.ID, "error", err)
	}
	i.begin(a, t.record.ID)
}

func failureOf(step Step, version string, err error) *Failure {
	return &Failure{Step: step, Kind: fault.KindOf(err), Message: clip(err.Error()), Advice: clip(fault.AdviceOf(err)), Time: time.Now().UTC().Truncate(time.Second), Version: version}
}

// clip shortens a text for a record.
func clip(text string) string {
	const most = maxSetup + 1024
	return printable.First(text, most)
}
