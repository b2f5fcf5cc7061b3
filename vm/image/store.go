package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

const (
	// keyDigits is how many digits of a key a folder's name contains.
	keyDigits = 16
	// keep is how many parts of a label are kept: the current one and the one
	// before, for users who return to the previous version.
	keep = 2

	sealName = "seal.json"
)

// part is a folder with files of an image, and a seal that pins them.
type part struct {
	dir   string
	Files []pack.File `json:"files"`
}

func (p part) path(name string) string { return filepath.Join(p.dir, name) }

// digest identifies the content of a part.
func (p part) digest() pack.Digest { return key(fmt.Sprint(p.Files)) }

// openPart reads the seal of a part and checks the sizes of its files. It fails with an
// error that is pack.Broken if the part is missing or broken.
func openPart(dir string) (part, error) {
	const op = "open image"
	p := part{dir: dir}
	text, err := os.ReadFile(p.path(sealName))
	if err != nil {
		return part{}, fault.Wrap(op, dir, err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return part{}, fault.New(fault.Rejected, op, p.path(sealName), err)
	}
	return p, pack.CheckSizes(op, dir, p.Files)
}

// sealPart pins the files of a folder and writes their seal.
func sealPart(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var p part
	for _, e := range entries {
		f, err := pack.PinFile(ctx, dir, e.Name())
		if err != nil {
			return err
		}
		p.Files = append(p.Files, f)
	}
	text, err := printable.Document(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sealName), text, 0o600)
}

func (p part) verify(ctx context.Context) error {
	err := pack.VerifyFiles(ctx, "verify image", p.dir, p.Files, nil)
	switch {
	case err == nil:
		return nil
	case pack.Broken(err):
		return fault.Wrap("", "", err).Advise("Rebuild the image with `osaurus-sandbox pack build PACK`. If it happens again, check the disk.")
	}
	return fault.Wrap("", "", err).Advise("Fix the cause and try again. The image was kept.")
}

// folders returns the parts of a kind. Their names are LABEL-KEY.
func (s Store) folders(kind string) pack.Folders {
	return pack.Folders{Dir: filepath.Join(s.Dir, kind)}
}

func partName(label string, key pack.Digest) string { return label + "-" + key.String()[:keyDigits] }

// ensure returns the part with this key, and builds it if it is missing or broken.
func (s Store) ensure(ctx context.Context, kind, label string, key pack.Digest, report progress.Func,
	build func(ctx context.Context, dir string) error) (part, error) {
	folders, name := s.folders(kind), partName(label, key)
	dir := folders.Path(name)
	if p, err := use(dir); err == nil { // without waiting for others that build
		return p, nil
	}
	err := folders.Build(ctx, name, report, func() error { _, err := use(dir); return err }, func(temp string) error {
		if err := prune(folders, label); err != nil {
			return err
		}
		if err := build(ctx, temp); err != nil {
			return fault.Wrap("build image", "", err)
		}
		return sealPart(ctx, temp)
	})
	if err != nil {
		return part{}, err
	}
	return openPart(dir)
}

// use opens a part and updates its time of use, for prune.
func use(dir string) (part, error) {
	p, err := openPart(dir)
	if err != nil {
		return part{}, err
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); errors.Is(err, fs.ErrNotExist) { // removed since openPart
		return part{}, err
	}
	return p, nil
}

// prune removes the parts of a label except those used last, to make room for a new one.
func prune(folders pack.Folders, label string) error {
	entries, err := os.ReadDir(folders.Dir)
	if err != nil {
		return fault.New(fault.Execution, "remove old images", folders.Dir, err)
	}
	used := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), label+"-")
		if info, err := e.Info(); ok && len(digits) == keyDigits && err == nil {
			names = append(names, e.Name())
			used[e.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, name := range names[min(keep-1, len(names)):] {
		err = errors.Join(err, folders.Discard(name))
	}
	return err
}

// DiscardBroken verifies an image and removes its broken parts, so that Ensure builds
// them again. It returns why they were broken. If it cannot tell whether a part is
// broken, it keeps the part and returns err. It keeps good parts too: the toolbox takes
// long to build and needs a network.
func (s Store) DiscardBroken(ctx context.Context, i Image) (why, err error) {
	for _, p := range []part{i.boot, i.base} {
		wrong := p.verify(ctx)
		if wrong == nil {
			continue
		}
		if !pack.Broken(wrong) {
			return why, wrong
		}
		err := pack.Folders{Dir: filepath.Dir(p.dir)}.Remove(ctx, func(name string) bool {
			if name != filepath.Base(p.dir) {
				return false
			}
			now, err := openPart(p.dir) // another program may have built it again
			return pack.Broken(cmp.Or(err, now.verify(ctx)))
		})
		if err != nil {
			return why, err
		}
		why = cmp.Or(why, wrong)
	}
	return why, nil
}

// Clear removes all images. Running machines are not affected: they have the files open.
func (s Store) Clear(ctx context.Context) error {
	kinds, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Execution, "remove images", s.Dir, err)
	}
	for _, kind := range kinds {
		if !kind.IsDir() {
			continue
		}
		if err := s.folders(kind.Name()).Remove(ctx, func(string) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}
