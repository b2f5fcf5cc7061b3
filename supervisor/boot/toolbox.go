package boot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/image/pack"
)

// PackageList is the file beside a base with a toolbox that lists its packages,
// one package and version a line.
const PackageList = "packages.txt"

const (
	builderMemory = 1 << 30 // far more than apk needs for Alpine's index
	builderCPUs   = 2
	builderDisk   = 8 << 30 // the toolbox is 0.5 GB, and is stored packed and unpacked
	// recipeFormat is raised to rebuild every base.
	recipeFormat = "1"
)

// ToolboxBuilder installs the toolbox into the bare base of an Alpine pack. It
// runs the package manager in a machine of its own.
type ToolboxBuilder struct {
	Driver vm.Driver
	Images image.Store
	// Dir keeps the disk of an unfinished build, so that the next one does not
	// download everything again.
	Dir      string
	Mirrors  []config.MirrorURL
	Packages []config.PackageName
}

// NewToolboxBuilder returns a builder for the toolbox and mirrors of the settings.
func NewToolboxBuilder(home config.Home, s config.Settings, driver vm.Driver, images image.Store) ToolboxBuilder {
	return ToolboxBuilder{Driver: driver, Images: images, Dir: home.Builder(), Mirrors: s.Mirrors, Packages: s.Toolbox}
}

// Find returns the image of a pack without building the toolbox: the image with
// the toolbox if it exists, otherwise the bare image and the missing packages.
func (b ToolboxBuilder) Find(ctx context.Context, p pack.Pack, report progress.Func) (i image.Image, missing []string, err error) {
	if p.Manifest.PackageTool == pack.APK && len(b.Packages) > 0 { // packs for apt include their tools
		if b.Images.HasToolbox(p, b.recipe()) {
			i, err = b.Build(ctx, p, report)
			return i, nil, err
		}
		missing = texts(b.Packages)
	}
	i, err = b.Images.Ensure(ctx, p, report)
	return i, missing, err
}

// Repair is Find after verifying the image: it makes broken parts again.
func (b ToolboxBuilder) Repair(ctx context.Context, p pack.Pack, report progress.Func) (i image.Image, missing []string, err error) {
	if i, missing, err = b.Find(ctx, p, report); err != nil {
		return i, missing, err
	}
	broken, err := b.Images.DiscardBroken(ctx, i)
	if err != nil || broken == nil {
		return i, missing, err
	}
	report.Note(broken.Error() + "; it is built again")
	return b.Find(ctx, p, report)
}

// Build returns the image of an apk pack with the toolbox, installing it if needed.
// Only one program builds at a time. Build fails with fault.Unavailable if no
// mirror can be reached, and with fault.Rejected if a package's signature is wrong.
func (b ToolboxBuilder) Build(ctx context.Context, p pack.Pack, report progress.Func) (image.Image, error) {
	const op = "build image with toolbox"
	release := releaseNumber.FindString(p.Manifest.Version)
	if release == "" {
		return image.Image{}, fault.Newf(fault.InvalidArgs, op, p.Manifest.Name, "version %q is not of the form 3.24.1", p.Manifest.Version)
	}
	i, err := b.Images.EnsureToolbox(ctx, p, b.recipe(), report, func(ctx context.Context, bare image.Image, dir string) error {
		return b.build(ctx, bare, "v"+release, dir, report)
	})
	if err != nil {
		return image.Image{}, fault.Wrap(op, p.Manifest.Name, err)
	}
	return i, nil
}

// recipe identifies the additions to the bare base. Mirrors are left out, since their
// packages are signed.
func (b ToolboxBuilder) recipe() []string {
	return append([]string{"apk", recipeFormat}, texts(b.Packages)...)
}

// build boots the bare image and writes a base with the toolbox to dir. The
// caller holds the image store's lock, so no other program uses the disk.
func (b ToolboxBuilder) build(ctx context.Context, bare image.Image, branch, dir string, report progress.Func) error {
	work := filepath.Join(b.Dir, string(bare.Arch))
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
	g, err := Boot(ctx, Spec{
		Driver: b.Driver, Image: bare, Hostname: "builder", Network: OpenNetwork(mirrorRules(b.Mirrors)...),
		Config: vm.Config{
			Name: "builder", CPUs: builderCPUs, Memory: builderMemory, Disks: []vm.Disk{{Path: data}}, ConsoleLog: filepath.Join(work, "console.log"),
		},
	})
	meter.Finish()
	if err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, os.Remove(data)) // the disk may be the reason
		}
		return err
	}
	defer g.Close()
	if err := (&builder{b, g.Client, report, branch}).build(ctx, dir); err != nil {
		if fault.KindOf(err) == fault.Rejected {
			err = errors.Join(err, os.Remove(data)) // its download cache is not trusted
		}
		return err
	}
	return errors.Join(g.Close(), os.RemoveAll(work))
}

// releaseNumber is the part of a version that names a release's folder on a mirror:
// 3.24 of 3.24.1.
var releaseNumber = regexp.MustCompile(`^[0-9]+\.[0-9]+\b`)

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}
