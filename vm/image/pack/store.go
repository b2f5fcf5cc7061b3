package pack

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/kernel"
)

// Store is a folder with a folder for each pack. A broken pack can be removed or made
// again.
type Store struct{ Dir string }

func (s Store) folders() Folders { return Folders(s) }

// List returns the packs, sorted by name. It returns both packs and an error if it cannot
// open some.
func (s Store) List() ([]Pack, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Execution, "list packs", s.Dir, err)
	}
	var packs []Pack
	var broken []error
	for _, e := range entries {
		if !ValidName(e.Name()) {
			continue
		}
		if p, err := s.open(e.Name()); err != nil {
			broken = append(broken, err)
		} else {
			packs = append(packs, p)
		}
	}
	return packs, errors.Join(broken...)
}

// Get returns the pack with this name.
func (s Store) Get(name string) (Pack, error) {
	if err := s.find("open pack", name); err != nil {
		return Pack{}, err
	}
	return s.open(name)
}

// find fails with fault.NotFound if the pack's folder does not exist. Open fails with the
// same kind if the folder lacks a file.
func (s Store) find(op, name string) error {
	if !ValidName(name) {
		return fault.Newf(fault.InvalidArgs, op, name, "invalid pack name")
	}
	_, err := os.Lstat(s.folders().Path(name))
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
	p, err := Open(s.folders().Path(name))
	if Broken(err) || fault.KindOf(err) == fault.InvalidArgs { // its manifest
		err = fault.Wrap("", "", err).Advise("Remove it with `osaurus-sandbox pack remove " + name + "`, and build or import it again: " +
			"`osaurus-sandbox pack build alpine`, `osaurus-sandbox pack build debian` or `osaurus-sandbox pack import FILE`.")
	}
	return p, err
}

// Build returns the pack with this name. If it does not exist or is broken, fill makes it:
// it writes the files to an empty folder and returns a manifest that names them. A pack
// whose manifest is invalid is not replaced: a newer program may have written it. Only one
// program builds at a time.
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

func (s Store) add(ctx context.Context, name string, report progress.Func, fill func(dir string) (Pack, error)) (Pack, error) {
	var found Pack
	err := s.folders().Build(ctx, name, report, func() (err error) {
		found, err = s.Get(name)
		return err
	}, func(dir string) error {
		p, err := fill(dir)
		if err != nil {
			return err
		}
		if err := kernel.Check(p.Manifest.Arch, p.Path(p.Manifest.Kernel)); err != nil {
			return fault.Wrap("make pack", name, err)
		}
		found = Pack{Dir: s.folders().Path(name), Manifest: p.Manifest}
		return nil
	})
	if err != nil {
		return Pack{}, err
	}
	return found, nil
}

// Remove deletes a pack, even a broken one.
func (s Store) Remove(ctx context.Context, name string) error {
	if err := s.find("remove pack", name); err != nil {
		return err
	}
	return s.folders().Remove(ctx, func(n string) bool { return n == name })
}

// Import adds a pack from an archive made by Export, and checks all
// digests. It returns an existing pack, or replaces it if it is broken. It never replaces
// a pack of the same name with other content.
func (s Store) Import(ctx context.Context, path string, report progress.Func) (Pack, error) {
	file, err := os.Open(path)
	if err != nil {
		return Pack{}, fault.Wrap("import pack", path, err)
	}
	defer file.Close()
	from, err := openBundle(file, path)
	if err != nil {
		return Pack{}, err
	}
	defer from.Close()
	m := from.manifest
	other := fault.Newf(fault.Rejected, "import pack", path, "another pack named %s exists", m.Name).
		Advise("Change the name in its " + ManifestName + ", or remove the other pack: `osaurus-sandbox pack remove " + m.Name + "`.")
	p, err := s.add(ctx, m.Name, report, func(dir string) (Pack, error) {
		if old, err := openManifest(s.folders().Path(m.Name)); err == nil && old.Digest() != m.Digest() {
			return Pack{}, other // even if it is broken
		}
		if err := from.copyFiles(ctx, dir, report); err != nil {
			return Pack{}, err
		}
		return Pack{Dir: dir, Manifest: m}, writeManifest(dir, m)
	})
	if err == nil && p.Digest() != m.Digest() {
		return Pack{}, other
	}
	return p, err
}
