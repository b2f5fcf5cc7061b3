package snapshots

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/store"
)

// A restore has two halves. Stage copies a snapshot to the folder ready, which appears at once: until
// then nothing has changed. Finish, in the next daemon before anything uses the state, puts the parts
// in place by renames, and what they replace into the snapshot Before. Each step can be repeated, so that a
// crash only delays the rest.
const (
	ready = ".restore" // a copy of a snapshot, without the parts that are in place already
	// replaced is the folder in ready that becomes Before. It appears with its manifest, before anything changes.
	replaced = "before"
)

// Stage prepares to restore a snapshot. The next daemon of the home finishes it: this one has to end. A
// snapshot for another base is refused unless otherBase is set: what agents have installed is lost then.
func (s *Snapshots) Stage(ctx context.Context, name string, otherBase bool, report progress.Func) (m Snapshot, err error) {
	const op = "restore snapshot"
	end, err := s.begin(op, name)
	if err != nil {
		return m, err
	}
	defer end()
	kept, err := read(s.Home, name)
	if err != nil {
		return m, err
	}
	if now := boot.BaseOf(s.Home); now != kept.Base && !otherBase {
		return m, fault.Newf(fault.Rejected, op, name, "it was made with another pack or toolbox, whose base is %.19s instead of %.19s", cmp.Or(kept.Base, "unknown"), cmp.Or(now, "unknown")).
			Advise("Set the pack back that was used then, or use --other-pack: what agents had installed is lost then, and their home folders are restored.")
	}
	if err := movable(op, s.Home); err != nil {
		return m, err
	}
	if err := unlessMissing(discard(s.Home, ready)); err != nil { // the last one counts
		return m, fault.Wrap(op, name, err)
	}
	return s.assemble(op, name, ready, func(dir string) (Snapshot, error) {
		return kept, copyAll(ctx, partsIn(folder(s.Home, name)), partsIn(dir), report)
	})
}

// movable checks that the parts of the state can be renamed into the folder of the snapshots.
func movable(op string, home config.Home) error {
	there, err := os.Stat(home.Snapshots())
	if err != nil {
		return fault.Wrap(op, home.Snapshots(), err)
	}
	for _, part := range partsOf(home) {
		if info, err := os.Lstat(part); err == nil && info.Sys().(*syscall.Stat_t).Dev != there.Sys().(*syscall.Stat_t).Dev {
			return fault.Newf(fault.Rejected, op, part, "it is not on the file system of %s", home.Snapshots()).Advise("Move the whole home to one file system.")
		}
	}
	return nil
}

// Finish puts a staged snapshot in place, and keeps what it replaces as the snapshot Before. It returns
// the snapshot's name, or "" if none is staged. The caller holds the home's lock; nothing else uses the
// state yet.
func Finish(ctx context.Context, home config.Home, db *store.DB) (name string, err error) {
	return finish(ctx, home, db, func(string) error { return nil })
}

// finish calls done after each step, and stops if that fails.
func finish(ctx context.Context, home config.Home, db *store.DB, done func(step string) error) (string, error) {
	m, err := read(home, ready)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	step := func(name string, do func() error) {
		if err == nil {
			err = do()
		}
		if err == nil {
			err = done(name)
		}
	}
	from, to, old := partsIn(folder(home, ready)), partsOf(home), folder(home, ready+"/"+replaced)
	aside := partsIn(old)
	step("describe", func() error {
		if exists(filepath.Join(old, manifestFile)) || !exists(from[0]) { // it has begun
			return nil
		}
		saved, err := agents.Save(ctx, db)
		if err != nil {
			return err
		}
		return Snapshot{Format: format, Name: Before, Created: time.Now().UTC(), Base: boot.BaseOf(home), Saved: saved}.write(old)
	})
	for i := range from {
		if err != nil || !exists(from[i]) { // it is in place
			continue
		}
		step("aside "+filepath.Base(to[i]), func() error { return move(to[i], aside[i]) })
		step("place "+filepath.Base(to[i]), func() error { return errors.Join(os.MkdirAll(filepath.Dir(to[i]), 0o700), move(from[i], to[i])) })
	}
	step("agents", func() error { return agents.Restore(ctx, db, m.Saved) })
	if exists(old) {
		step("discard", func() error { return unlessMissing(discard(home, Before)) })
		step("keep", func() error { return move(old, folder(home, Before)) })
	}
	step("ready", func() error { return discard(home, ready) })
	if err != nil {
		return "", fault.New(fault.Unavailable, "restore snapshot", m.Name, err).Advise("The restore is not finished. Make " + string(home) + " writable and start again.")
	}
	return m.Name, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// move renames a file or a folder, if it is there, and writes that to the disk.
func move(from, to string) error {
	if !exists(from) {
		return nil
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(config.Sync(filepath.Dir(from)), config.Sync(filepath.Dir(to)))
}

func unlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
