package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/kernel"
)

// Store is a folder of packs, each in a folder of its own name. A pack comes
// there whole or not at all; what a killed program leaves begins with a dot
// and is cleared away by the next that makes the same pack. One that others
// have damaged since can be removed, and is replaced by the next that makes it.
type Store struct{ Dir string }

// List returns the packs, sorted by name. Where some cannot be opened the
// others are returned too, beside the error.
func (s Store) List() ([]Pack, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Execution, "list packs", s.Dir, err)
	}
	var packs []Pack
	var broken []error
	for _, e := range entries {
		if !ValidName(e.Name()) {
			continue
		}
		p, err := s.open(e.Name())
		if err != nil {
			broken = append(broken, err)
			continue
		}
		packs = append(packs, p)
	}
	return packs, errors.Join(broken...)
}

// Get returns the pack of a name.
func (s Store) Get(name string) (Pack, error) {
	if err := s.look("open pack", name); err != nil {
		return Pack{}, err
	}
	return s.open(name)
}

// place is where the pack of a name is.
func (s Store) place(name string) string { return filepath.Join(s.Dir, name) }

// making is where a pack is made, and aside where a broken one waits until the
// one that replaces it has come to its place.
func (s Store) making(name string) string { return filepath.Join(s.Dir, "."+name+".making") }
func (s Store) aside(name string) string  { return filepath.Join(s.Dir, "."+name+".broken") }

// look fails with fault.NotFound where there is nothing by a name. What is
// there need not be whole: the error of Open cannot tell a pack without a file
// from no pack.
func (s Store) look(op, name string) error {
	if !ValidName(name) {
		return fault.Newf(fault.InvalidArgs, op, name, "no pack can have this name")
	}
	_, err := os.Lstat(s.place(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, op, name, nil).
			Advise("See `osaurus-sandbox pack list` for what is there, and make one with `osaurus-sandbox pack build` or `osaurus-sandbox pack import`.")
	}
	if err != nil {
		return fault.Wrap(op, name, err)
	}
	return nil
}

// open opens a pack that is there. Its advice works for every pack: also for
// one that only its importer can have again, or whose release is not the one
// that is built now.
func (s Store) open(name string) (Pack, error) {
	p, err := Open(s.place(name))
	if broken(err) || fault.KindOf(err) == fault.InvalidArgs { // its manifest
		err = fault.Wrap("", "", err).Advise("Delete it with `osaurus-sandbox pack remove " + name + "`, and have it built or imported again: " +
			"`osaurus-sandbox pack build alpine`, `osaurus-sandbox pack build debian` or `osaurus-sandbox pack import FILE`.")
	}
	return p, err
}

// broken reports whether an error of Open is that a file is missing or is
// surely not the pinned one. Others, such as too many open files, say nothing
// of the pack; and a manifest that is not understood may be of a newer program.
func broken(err error) bool {
	kind := fault.KindOf(err)
	return err != nil && (kind == fault.NotFound || kind == fault.Rejected)
}

// Build returns the pack of a name, and makes it where it is not there, or
// lacks a file or has one of the wrong size: fill puts its files into an empty
// folder and returns a manifest that names them. A broken pack stays until the
// new one is whole. Of several programs that want the same pack one builds and the others wait.
func (s Store) Build(ctx context.Context, name string, report progress.Func, fill func(ctx context.Context, dir string) (Manifest, error)) (Pack, error) {
	return s.add(ctx, name, report, func(dir string) (Pack, error) {
		m, err := fill(ctx, dir)
		if err != nil {
			return Pack{}, err
		}
		m.Name = name
		return Seal(ctx, dir, m)
	})
}

// add makes a pack under the lock of its name, in a folder that then becomes
// the pack's.
func (s Store) add(ctx context.Context, name string, report progress.Func, fill func(dir string) (Pack, error)) (Pack, error) {
	if !ValidName(name) {
		return Pack{}, fault.Newf(fault.InvalidArgs, "make pack", name, "no pack can have this name")
	}
	held, err := s.lock(ctx, name, report)
	if err != nil {
		return Pack{}, err
	}
	defer held.Release()
	temp := s.making(name)
	switch p, err := s.Get(name); {
	case err == nil:
		os.RemoveAll(s.aside(name)) // of who was killed just after it had been replaced
		return p, nil
	case !broken(err):
		return Pack{}, err
	case s.look("", name) == nil:
		report.Note(err.Error() + "; it is made again")
	}
	if err := freshFolder(temp); err != nil {
		return Pack{}, fault.New(fault.Execution, "make pack", name, err)
	}
	defer os.RemoveAll(temp)
	p, err := fill(temp)
	if err != nil {
		return Pack{}, err
	}
	if err := kernel.Check(p.Manifest.Arch, p.Path(p.Manifest.Kernel)); err != nil {
		return Pack{}, fault.Wrap("make pack", name, err)
	}
	if err := s.settle(p, name); err != nil {
		return Pack{}, fault.New(fault.Execution, "make pack", name, err)
	}
	return s.open(name)
}

func (s Store) lock(ctx context.Context, name string, report progress.Func) (*Lock, error) {
	return AcquireLock(ctx, filepath.Join(s.Dir, "."+name+".lock"), func(owner string) {
		report.Note(fmt.Sprintf("waiting for %s, which is making the pack %s", owner, name))
	})
}

// settle brings a pack to the disk and then to its place. A folder does not
// replace one that has files, so a broken pack is set aside first; whoever is
// killed in between leaves no pack, as one who was killed before it was made.
func (s Store) settle(p Pack, name string) error {
	for _, f := range append(p.Manifest.Files(), File{Name: ManifestName}) {
		if err := config.Sync(p.Path(f)); err != nil {
			return err
		}
	}
	if err := config.Sync(p.Dir); err != nil {
		return err
	}
	place, aside := s.place(name), s.aside(name)
	if err := errors.Join(os.RemoveAll(aside), os.Rename(place, aside)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(p.Dir, place); err != nil {
		os.Rename(aside, place) // where there was one: what was there stays
		return err
	}
	return errors.Join(config.Sync(s.Dir), os.RemoveAll(aside))
}

// Remove deletes a pack, whatever is left of it.
func (s Store) Remove(ctx context.Context, name string) error {
	const op = "remove pack"
	if err := s.look(op, name); err != nil {
		return err
	}
	held, err := s.lock(ctx, name, nil)
	if err != nil {
		return err
	}
	defer held.Release()
	if err := s.look(op, name); err != nil { // another has removed it meanwhile
		return err
	}
	temp := s.making(name)
	err = errors.Join(os.RemoveAll(temp), os.Rename(s.place(name), temp), os.RemoveAll(temp), os.RemoveAll(s.aside(name)))
	if err != nil {
		return fault.New(fault.Execution, op, name, err)
	}
	return nil
}

// Import adds the pack in a folder, or in an archive that Export made, after
// checking every digest. A pack that is there already is returned as it is, or
// replaced where it is broken; one of the same name with other content is never
// replaced.
func (s Store) Import(ctx context.Context, path string, report progress.Func) (Pack, error) {
	from, err := openBundle(path)
	if err != nil {
		return Pack{}, err
	}
	defer from.close()
	m := from.manifest
	other := fault.Newf(fault.Rejected, "import pack", path, "another pack named %s is there", m.Name).
		Advise("Change the name in its " + ManifestName + ", or delete the other first: `osaurus-sandbox pack remove " + m.Name + "`.")
	p, err := s.add(ctx, m.Name, report, func(dir string) (Pack, error) {
		if old, err := openManifest(s.place(m.Name)); err == nil && old.Digest() != m.Digest() {
			return Pack{}, other // although it is broken
		}
		for range m.Files() {
			if err := from.copyNext(ctx, dir, report); err != nil {
				return Pack{}, err
			}
		}
		return Pack{Dir: dir, Manifest: m}, errors.Join(from.end(), writeManifest(dir, m))
	})
	if err == nil && p.Digest() != m.Digest() {
		return Pack{}, other
	}
	return p, err
}

func freshFolder(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o755)
}

// writeTo copies a file of a pack into a folder.
func writeTo(dir string, f File, r io.Reader, report progress.Func) error {
	meter := report.Start("copy "+f.Name, 0, f.Size)
	defer meter.Finish()
	out, err := os.OpenFile(filepath.Join(dir, f.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(out, meter), r)
	return errors.Join(err, out.Close())
}
