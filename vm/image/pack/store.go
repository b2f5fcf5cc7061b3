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
	"osaurus-sandbox/fault"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/lock"
	"osaurus-sandbox/vm/image/progress"
)

// Store is a folder of packs, each in a folder of its own name. A pack is
// there whole or not at all; what a killed program leaves begins with a dot
// and is cleared away by the next that makes the same pack.
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
		p, err := Open(filepath.Join(s.Dir, e.Name()))
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
	if !ValidName(name) {
		return Pack{}, fault.Newf(fault.InvalidArgs, "open pack", name, "no pack can have this name")
	}
	if _, err := os.Stat(filepath.Join(s.Dir, name)); errors.Is(err, fs.ErrNotExist) {
		return Pack{}, fault.New(fault.NotFound, "open pack", name, nil).
			Advise("See `osaurus-sandbox pack list` for what is there, and make one with `osaurus-sandbox pack build` or `osaurus-sandbox pack import`.")
	}
	return Open(filepath.Join(s.Dir, name))
}

// Build returns the pack of a name, and makes it where it is not there: fill
// puts its files into an empty folder and returns a manifest that names them.
// Of several programs that want the same pack one builds and the others wait.
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
	if p, err := s.Get(name); fault.KindOf(err) != fault.NotFound || err == nil {
		return p, err
	}
	temp := filepath.Join(s.Dir, "."+name+".making")
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
	return Open(filepath.Join(s.Dir, name))
}

func (s Store) lock(ctx context.Context, name string, report progress.Func) (*lock.Lock, error) {
	return lock.Acquire(ctx, filepath.Join(s.Dir, "."+name+".lock"), func(owner string) {
		report.Note(fmt.Sprintf("waiting for %s, which is making the pack %s", owner, name))
	})
}

// settle brings a pack to the disk and then to its place.
func (s Store) settle(p Pack, name string) error {
	for _, f := range append(p.Manifest.Files(), File{Name: ManifestName}) {
		if err := config.Sync(p.Path(f)); err != nil {
			return err
		}
	}
	if err := config.Sync(p.Dir); err != nil {
		return err
	}
	if err := os.Rename(p.Dir, filepath.Join(s.Dir, name)); err != nil {
		return err
	}
	return config.Sync(s.Dir)
}

// Remove deletes a pack.
func (s Store) Remove(ctx context.Context, name string) error {
	if _, err := s.Get(name); fault.KindOf(err) == fault.NotFound || !ValidName(name) {
		return err
	}
	held, err := s.lock(ctx, name, nil)
	if err != nil {
		return err
	}
	defer held.Release()
	temp := filepath.Join(s.Dir, "."+name+".making")
	err = errors.Join(os.RemoveAll(temp), os.Rename(filepath.Join(s.Dir, name), temp), os.RemoveAll(temp))
	if err != nil {
		return fault.New(fault.Execution, "remove pack", name, err)
	}
	return nil
}

// Import adds the pack in a folder, or in an archive that Export made, after
// checking every digest. A pack that is there already is returned as it is;
// one of the same name with other content is never replaced.
func (s Store) Import(ctx context.Context, path string, report progress.Func) (Pack, error) {
	from, err := openBundle(path)
	if err != nil {
		return Pack{}, err
	}
	defer from.close()
	m := from.manifest
	p, err := s.add(ctx, m.Name, report, func(dir string) (Pack, error) {
		for range m.Files() {
			if err := from.copyNext(ctx, dir, report); err != nil {
				return Pack{}, err
			}
		}
		return Pack{Dir: dir, Manifest: m}, errors.Join(from.end(), writeManifest(dir, m))
	})
	if err == nil && p.Digest() != m.Digest() {
		return Pack{}, fault.Newf(fault.Rejected, "import pack", path, "another pack named %s is there", m.Name).
			Advise("Change the name in its " + ManifestName + ", or delete the other first: `osaurus-sandbox pack remove " + m.Name + "`.")
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
