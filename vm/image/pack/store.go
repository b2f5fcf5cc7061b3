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

// Store is a folder with a folder for each pack. Packs are added completely or not at all:
// what a killed program leaves has a name with a leading dot, and the next program that
// makes the pack removes it. A damaged pack can be removed or made again.
type Store struct{ Dir string }

// List returns the packs, sorted by name. It returns both packs and an error if it cannot
// open some.
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

// Get returns the pack with this name.
func (s Store) Get(name string) (Pack, error) {
	if err := s.look("open pack", name); err != nil {
		return Pack{}, err
	}
	return s.open(name)
}

// place returns the folder of a pack.
func (s Store) place(name string) string { return filepath.Join(s.Dir, name) }

// making returns the folder where a pack is made, and aside the folder for a broken pack
// until its replacement is complete.
func (s Store) making(name string) string { return filepath.Join(s.Dir, "."+name+".making") }
func (s Store) aside(name string) string  { return filepath.Join(s.Dir, "."+name+".broken") }

// look fails with fault.NotFound if the pack's folder does not exist. Open fails with the
// same kind if the folder lacks a file.
func (s Store) look(op, name string) error {
	if !ValidName(name) {
		return fault.Newf(fault.InvalidArgs, op, name, "invalid pack name")
	}
	_, err := os.Lstat(s.place(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, op, name, nil).
			Advise("List packs with `osaurus-sandbox pack list`, or add one with `osaurus-sandbox pack build` or `osaurus-sandbox pack import`.")
	}
	if err != nil {
		return fault.Wrap(op, name, err)
	}
	return nil
}

// open opens an existing pack. Its advice works for all packs, including imported ones.
func (s Store) open(name string) (Pack, error) {
	p, err := Open(s.place(name))
	if broken(err) || fault.KindOf(err) == fault.InvalidArgs { // its manifest
		err = fault.Wrap("", "", err).Advise("Remove it with `osaurus-sandbox pack remove " + name + "`, and build or import it again: " +
			"`osaurus-sandbox pack build alpine`, `osaurus-sandbox pack build debian` or `osaurus-sandbox pack import FILE`.")
	}
	return p, err
}

// broken reports whether an error of Open means that a file is missing or not what the
// manifest pins. An invalid manifest does not count: a newer program may have written it.
func broken(err error) bool {
	kind := fault.KindOf(err)
	return err != nil && (kind == fault.NotFound || kind == fault.Rejected)
}

// Build returns the pack with this name. If it does not exist or is broken, fill makes it:
// it writes the files to an empty folder and returns a manifest that names them. A broken
// pack is kept until the new one is complete. Only one program builds a pack at a time.
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

// add holds the pack's lock while fill makes the pack in a temporary folder, and then
// renames the folder.
func (s Store) add(ctx context.Context, name string, report progress.Func, fill func(dir string) (Pack, error)) (Pack, error) {
	if !ValidName(name) {
		return Pack{}, fault.Newf(fault.InvalidArgs, "make pack", name, "invalid pack name")
	}
	held, err := s.lock(ctx, name, report)
	if err != nil {
		return Pack{}, err
	}
	defer held.Release()
	temp := s.making(name)
	switch p, err := s.Get(name); {
	case err == nil:
		os.RemoveAll(s.aside(name)) // left by a killed program
		return p, nil
	case !broken(err):
		return Pack{}, err
	case s.look("", name) == nil:
		report.Note(err.Error() + "; making it again")
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
	if err := s.install(p, name); err != nil {
		return Pack{}, fault.New(fault.Execution, "make pack", name, err)
	}
	return s.open(name)
}

func (s Store) lock(ctx context.Context, name string, report progress.Func) (*Lock, error) {
	return AcquireLock(ctx, filepath.Join(s.Dir, "."+name+".lock"), func(owner string) {
		report.Note(fmt.Sprintf("waiting for %s to make the pack %s", owner, name))
	})
}

// install syncs a new pack to disk and renames its folder. A rename cannot replace a folder
// with files, so it moves a broken pack aside first.
func (s Store) install(p Pack, name string) error {
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
		os.Rename(aside, place) // restore the broken pack, if there was one
		return err
	}
	return errors.Join(config.Sync(s.Dir), os.RemoveAll(aside))
}

// Remove deletes a pack, even a broken one.
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

// Import adds a pack from a folder or from an archive made by Export, and checks all
// digests. It returns an existing pack, or replaces it if it is broken. It never replaces
// a pack of the same name with other content.
func (s Store) Import(ctx context.Context, path string, report progress.Func) (Pack, error) {
	from, err := openBundle(path)
	if err != nil {
		return Pack{}, err
	}
	defer from.close()
	m := from.manifest
	other := fault.Newf(fault.Rejected, "import pack", path, "another pack named %s exists", m.Name).
		Advise("Change the name in its " + ManifestName + ", or remove the other pack: `osaurus-sandbox pack remove " + m.Name + "`.")
	p, err := s.add(ctx, m.Name, report, func(dir string) (Pack, error) {
		if old, err := openManifest(s.place(m.Name)); err == nil && old.Digest() != m.Digest() {
			return Pack{}, other // even if it is broken
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

// writeTo copies a file of a pack to a folder.
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
