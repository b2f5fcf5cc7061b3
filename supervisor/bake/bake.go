// Package bake adds tools to the bare base of an Alpine pack, in a machine that runs for nothing else, and seals what comes out.
package bake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/launch"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/image/pack"
)

// PackagesName is the file beside a baked base that lists what is installed:
// a package and its version a line.
const PackagesName = "packages.txt"

const (
	// builderMemory is what apk needs for Alpine's whole index, many times over.
	builderMemory = 1 << 30
	builderCPUs   = 2
	// builderDisk holds the packages twice, packed and unpacked, with room:
	// the toolbox has 0.5 GB.
	builderDisk = 8 << 30
	// format raises anew what every base is baked of.
	format = "1"
)

// Baker bakes images. Its fields are not changed by it.
type Baker struct {
	Driver vm.Driver
	Images image.Store
	// Dir is where the machine's disk is kept until a bake has succeeded, so
	// that one that was stopped downloads nothing twice.
	Dir      string
	Mirrors  []string
	Packages []string
}

// For bakes for a home, with the toolbox and the mirrors of its settings.
func For(home config.Home, s config.Settings, driver vm.Driver, images image.Store) Baker {
	return Baker{Driver: driver, Images: images, Dir: home.Bake(), Mirrors: texts(s.Mirrors), Packages: texts(s.Toolbox)}
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// Find returns the image of a pack without baking: the baked one where it is
// there, otherwise the bare one and what it lacks.
func (b Baker) Find(ctx context.Context, p pack.Pack, report progress.Func) (i image.Image, missing []string, err error) {
	if !bakeable(p) || len(b.Packages) == 0 {
		i, err = b.Images.Ensure(ctx, p, report)
		return i, nil, err
	}
	if b.Images.IsBaked(p, b.recipe()) {
		i, err = b.Bake(ctx, p, report)
		return i, nil, err
	}
	i, err = b.Images.Ensure(ctx, p, report)
	return i, b.Packages, err
}

// bakeable reports whether a pack's base is bare. Those for apt are made with
// all their tools.
func bakeable(p pack.Pack) bool { return p.Manifest.PackageTool == pack.APK }

// Bake returns the image of a pack with the packages installed, and installs
// them if that has not been done. Only one program bakes at a time. It fails
// with fault.Unavailable where no mirror can be reached, and with
// fault.Rejected for a package whose signature is wrong.
func (b Baker) Bake(ctx context.Context, p pack.Pack, report progress.Func) (image.Image, error) {
	const op = "bake image"
	if !bakeable(p) {
		return image.Image{}, fault.Newf(fault.InvalidArgs, op, p.Manifest.Name, "its package tool is %s", p.Manifest.PackageTool).
			Advise("Only packs for apk are bare: use this one as it is.")
	}
	branch, err := releaseBranch(p.Manifest.Version)
	if err != nil {
		return image.Image{}, fault.New(fault.InvalidArgs, op, p.Manifest.Name, err)
	}
	if err := checkWords(b.Packages, b.Mirrors); err != nil {
		return image.Image{}, fault.New(fault.InvalidArgs, op, p.Manifest.Name, err).Advise("Mend the settings toolbox and mirrors.")
	}
	i, err := b.Images.EnsureBaked(ctx, p, b.recipe(), report, func(ctx context.Context, bare image.Image, dir string) error {
		return b.bake(ctx, bare, branch, dir, report)
	})
	if err != nil {
		return image.Image{}, fault.Wrap(op, p.Manifest.Name, err)
	}
	return i, nil
}

// recipe stands for everything but the bare base that a baked one is made of.
// The mirrors are not part of it: what they deliver is signed.
func (b Baker) recipe() []string { return append([]string{"apk", format}, b.Packages...) }

// bake boots a machine from the bare image and writes the baked base. Whoever
// holds the store's lock calls it, so the disk has no other user.
func (b Baker) bake(ctx context.Context, bare image.Image, branch, dir string, report progress.Func) error {
	work := filepath.Join(b.Dir, "bake-"+string(bare.Arch))
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	data := filepath.Join(work, "data.ext4")
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		if err := disk.Create(data, builderDisk); err != nil {
			return err
		}
	}
	meter := report.Start("boot builder", 0, 0)
	g, err := launch.Boot(ctx, launch.Spec{
		Driver: b.Driver, Image: bare, Name: "bake", Hostname: "bake", CPUs: builderCPUs, Memory: builderMemory,
		DataDisk: data, Network: vm.NetworkNAT, ConsoleLog: filepath.Join(work, "console.log"), StateDir: work,
	})
	meter.Finish()
	if err != nil {
		if ctx.Err() == nil {
			// Whether the disk is to blame is not known; a new one surely is not.
			err = errors.Join(err, os.Remove(data))
		}
		return err
	}
	defer g.Close()
	k := &kitchen{guest: g.Client, report: report, branch: branch, mirrors: b.Mirrors, packages: b.Packages}
	if err := k.cook(ctx, dir); err != nil {
		if fault.KindOf(err) == fault.Rejected {
			err = errors.Join(err, os.Remove(data)) // what it has cached is not to be trusted
		}
		return err
	}
	// What the machine holds is good for nothing more.
	return errors.Join(g.Close(), os.RemoveAll(work))
}

// releaseBranch is the folder of a release's packages on a mirror: "v3.24" for
// "3.24.1".
func releaseBranch(version string) (string, error) {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || !digits(parts[0]) || !digits(parts[1]) {
		return "", fmt.Errorf("version %q is not of the form 3.24.1", version)
	}
	return "v" + parts[0] + "." + parts[1], nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// checkWords refuses what would be more than one word to apk, or an option.
func checkWords(lists ...[]string) error {
	for _, list := range lists {
		for _, w := range list {
			if w == "" || w[0] == '-' || strings.ContainsFunc(w, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return fmt.Errorf("%q is not a package or a mirror", w)
			}
		}
	}
	return nil
}
