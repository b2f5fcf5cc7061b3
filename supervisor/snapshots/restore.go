package snapshots

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm/image/disk"
)

// A restore has two halves. Stage copies a snapshot to the folder ready, which appears at once: until
// then nothing has changed. Finish, in the next daemon before anything uses the state, puts the parts
// in place by renames. Each step can be repeated, so that a crash only delays the rest.
const (
	ready = ".restore" // a copy of a snapshot, without the parts that are in place already
	old   = ".before"  // becomes the snapshot Before
)

// Stage prepares to restore a snapshot. The next daemon of the home finishes it: this one has to end. A
// snapshot for another base is refused unless otherBase is set: what agents have installed is lost then.
func (s *Snapshots) Stage(ctx context.Context, name string, otherBase bool, report progress.Func) (m Manifest, err error) {
	const op = "restore snapshot"
	end, err := s.begin(op, name)
	if err != nil {
		return m, err
	}
	defer end()
	if err := checkName(op, name); err != nil {
		return m, err
	}
	if m, err = read(s.Home, name); err != nil {
		return m, err
	}
	if now := boot.BaseOf(s.Home); now != m.Base && !otherBase {
		return m, fault.Newf(fault.Rejected, op, name, "it was made with another pack or toolbox, whose base is %.19s instead of %.19s", cmp.Or(m.Base, "unknown"), cmp.Or(now, "unknown")).
			Advise("Set the pack back that was used then, or use --other-pack: what agents had installed is lost then, and their home folders are restored.")
	}
	if err := s.movable(op, name); err != nil {
		return m, err
	}
	part, err := s.Home.Make(folder(s.Home, unfinished+rand.Text()))
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(failed(op, name, err), removeIn(s.Home, filepath.Base(part)))
		}
	}()
	c := copying{from: inFolder(folder(s.Home, name)), to: inFolder(part)}
	if err := c.measure(ctx, op, name); err != nil {
		return m, err
	}
	meter := report.Start("copy", 0, c.total)
	defer meter.Finish()
	c.count = meter.Add
	if err := c.all(ctx); err != nil {
		return m, err
	}
	return m, errors.Join(m.write(part), clone.Sync(part), os.Rename(part, folder(s.Home, ready)), config.Sync(s.Home.Snapshots()))
}

// movable checks that the parts of the state can be renamed into the folder of the snapshots.
func (s *Snapshots) movable(op, name string) error {
	if _, err := os.Lstat(folder(s.Home, ready)); err == nil {
		return fault.Newf(fault.Rejected, op, name, "another snapshot is being restored").Advise("It is when the daemon starts again: osaurus-sandbox down --daemon.")
	}
	there, err := os.Stat(s.Home.Snapshots())
	if err != nil {
		return fault.Wrap(op, name, err)
	}
	in := inHome(s.Home)
	for _, part := range []string{in.disk, in.workspace, in.states} {
		info, err := os.Lstat(part)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fault.Wrap(op, name, err)
		case info.Mode().Type() == fs.ModeSymlink || info.Sys().(*syscall.Stat_t).Dev != there.Sys().(*syscall.Stat_t).Dev:
			return fault.Newf(fault.Rejected, op, name, "%s is not on the file system of %s", part, s.Home.Snapshots()).Advise("Move the whole home to one file system.")
		}
	}
	return nil
}

// Finish puts a staged snapshot in place, and keeps what it replaces as the snapshot Before. It returns
// the snapshot's name, or "" if none is staged. The caller holds the home's lock; nothing else uses the
// state yet.
func Finish(ctx context.Context, home config.Home, db *store.DB, program string) (name string, err error) {
	return finishing{home, db, program, func(string) error { return nil }}.run(ctx)
}

type finishing struct {
	home    config.Home
	db      *store.DB
	program string
	done    func(step string) error // for tests
}

func (f finishing) run(ctx context.Context) (string, error) {
	const op = "restore snapshot"
	m, err := read(f.home, ready)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return "", f.publish()
	case err != nil:
		return "", err
	}
	wrong := func(err error) (string, error) {
		return "", fault.New(fault.Unavailable, op, "", err).Advise("The restore is not finished. Make " + string(f.home) + " writable and start again.")
	}
	if err := f.describe(ctx); err != nil {
		return wrong(err)
	}
	from, to, aside := inFolder(folder(f.home, ready)), inHome(f.home), inFolder(folder(f.home, old))
	for _, p := range [][3]string{{from.disk, to.disk, aside.disk}, {from.workspace, to.workspace, aside.workspace}, {from.states, to.states, aside.states}} {
		if err := f.swap(p[0], p[1], p[2]); err != nil {
			return wrong(err)
		}
	}
	if err := errors.Join(agents.Restore(ctx, f.db, m.Saved), f.done("agents")); err != nil {
		return wrong(err)
	}
	if err := errors.Join(discard(f.home, folder(f.home, ready)), f.done("ready")); err != nil {
		return wrong(err)
	}
	if err := f.publish(); err != nil {
		return wrong(err)
	}
	return m.Name, nil
}

// describe writes the manifest of the present state, before anything changes.
func (f finishing) describe(ctx context.Context) error {
	dir := folder(f.home, old)
	if _, err := os.Lstat(filepath.Join(dir, manifestFile)); err == nil {
		return nil // by an earlier try
	}
	if _, err := f.home.Make(dir); err != nil {
		return err
	}
	saved, err := agents.Save(ctx, f.db)
	if err != nil {
		return err
	}
	m := Manifest{Format: format, Name: Before, Created: time.Now().UTC(), Program: f.program, Base: boot.BaseOf(f.home), Saved: saved}
	info, err := os.Stat(f.home.DataDisk())
	if errors.Is(err, fs.ErrNotExist) { // it was removed: an empty one stands for it
		if err = disk.Create(inFolder(dir).disk, disk.MinSize); err == nil || fault.KindOf(err) == fault.Rejected {
			info, err = os.Stat(inFolder(dir).disk)
		}
	}
	if err != nil {
		return err
	}
	m.DiskSize, m.DiskBytes = info.Size(), clone.Allocated(info)
	if m.Workspace, err = measure(ctx, f.home.Workspace()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(m.write(dir), f.done("describe"))
}

// swap moves what is in place aside, and the new part to its place. A part that is in place already is
// no longer in its folder.
func (f finishing) swap(from, to, aside string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Rename(to, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(f.sync(to, aside), f.done("aside "+filepath.Base(to))); err != nil {
		return err
	}
	return errors.Join(os.Rename(from, to), f.sync(to, from), f.done("place "+filepath.Base(to)))
}

// sync writes two renamed names to the disk.
func (f finishing) sync(a, b string) error {
	return errors.Join(config.Sync(filepath.Dir(a)), config.Sync(filepath.Dir(b)))
}

// publish makes a snapshot of what a finished restore replaced.
func (f finishing) publish() error {
	if _, err := os.Lstat(folder(f.home, old)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := discard(f.home, folder(f.home, Before)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(f.done("discard"), os.Rename(folder(f.home, old), folder(f.home, Before)), config.Sync(f.home.Snapshots()))
}
