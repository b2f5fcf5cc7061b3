// Package provision makes and keeps what the sandbox of a home boots from, and boots it.
package provision

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/bake"
	"osaurus-sandbox/supervisor/journey"
	"osaurus-sandbox/supervisor/launch"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/image/sources"
)

// Site is the sandbox of a home, on disk. Whoever uses it has taken the home;
// its methods are called one at a time, but for Provisioned.
type Site struct {
	home    config.Home
	driver  vm.Driver
	arch    vm.Arch
	folders *vm.Subtrees
	bridge  launch.Bridge

	sources *sources.Sources
	images  image.Store

	accelerator string
	networks    []vm.NetworkKind
	common      vm.Ownership // of what agents share
	ready       prepared
}

// prepared is what Prepare found or made.
type prepared struct {
	image   image.Image
	choice  sources.Choice
	missing []string // of the toolbox
}

// New returns the site of a home, for guests of an architecture. The folders
// are those of the workspace that belong to somebody, and the bridge answers what
// programs in the guest ask for; nil is none.
func New(home config.Home, driver vm.Driver, arch vm.Arch, folders *vm.Subtrees, bridge launch.Bridge) *Site {
	return &Site{
		home: home, driver: driver, arch: arch, folders: folders, bridge: bridge,
		sources: sources.New(home.Packs(), home.Downloads()),
		images:  image.Store{Dir: home.Images(), Programs: embedded.Programs[vm.Arch]},
	}
}

// Check asks whether this host can run machines, and names what runs their
// instructions.
func (s *Site) Check(ctx context.Context) (accelerator string, err error) {
	can, err := s.driver.Capabilities(ctx, s.arch)
	if err != nil {
		return "", err
	}
	s.accelerator, s.networks, s.common = can.Accelerator, can.Network, common(can)
	return can.Accelerator, nil
}

// common is whose the folders are that agents share. Where one of them owned a file, the others
// could not change it.
func common(can vm.Capabilities) vm.Ownership {
	if slices.Contains(can.Ownership, vm.OwnershipEverybody) {
		return vm.OwnershipEverybody
	}
	return vm.OwnershipAsker // the server of macOS has no other
}

// Prepare makes what a boot with these settings needs and is not there. With
// fresh it verifies what is there, and makes anew what is broken.
func (s *Site) Prepare(ctx context.Context, set config.Settings, fresh bool, walk *journey.Walk) error {
	known, _ := s.record()
	var p prepared
	err := walk.Do(journey.Pack, func(report progress.Func) (err error) {
		if p.choice, err = s.sources.Get(ctx, string(set.Pack), s.arch, report); err == nil && fresh {
			err = p.choice.Pack.Verify(ctx, report)
		}
		return err
	})
	if err != nil {
		return err
	}
	baker := bake.For(s.home, set, s.driver, s.images)
	err = walk.Do(journey.Image, func(report progress.Func) (err error) {
		if p.image, p.missing, err = baker.Find(ctx, p.choice.Pack, report); err != nil || !fresh {
			return err
		}
		broken, err := s.images.DiscardBroken(ctx, p.image)
		if err != nil || broken == nil {
			return err
		}
		p.image, p.missing, err = baker.Find(ctx, p.choice.Pack, report)
		return err
	})
	if err != nil {
		return err
	}
	switch {
	case len(p.missing) == 0:
		walk.Skip(journey.Toolbox, "it is in the image")
	case !fresh && known.fits(set) && len(known.Missing) > 0:
		walk.Skip(journey.Toolbox, "it could not be installed before; `osaurus-sandbox provision` tries again")
	default:
		if err := s.bake(ctx, baker, &p, walk); err != nil {
			return err
		}
	}
	if err := walk.Do(journey.Disk, func(progress.Func) error { return s.makeDisk(set) }); err != nil {
		return err
	}
	if err := s.link(p.image); err != nil {
		return err
	}
	s.ready = p
	return s.keep(newRecord(set, p))
}

// bake installs the toolbox. Where no mirror can be reached the bare image is
// used: a sandbox without tools is better than none.
func (s *Site) bake(ctx context.Context, baker bake.Baker, p *prepared, walk *journey.Walk) error {
	var unreachable error
	err := walk.Do(journey.Toolbox, func(report progress.Func) error {
		baked, err := baker.Bake(ctx, p.choice.Pack, report)
		switch {
		case err == nil:
			p.image, p.missing = baked, nil
		case ctx.Err() == nil && fault.KindOf(err) == fault.Unavailable:
			unreachable, err = err, nil
		}
		return err
	})
	if unreachable != nil {
		walk.Skip(journey.Toolbox, unreachable.Error())
	}
	return err
}

// makeDisk makes the data disk, or grows it. A smaller size in the settings
// counts from the next reset.
func (s *Site) makeDisk(set config.Settings) error {
	path, size := s.home.DataDisk(), int64(set.DiskGB)<<30
	if _, err := s.home.Make(filepath.Dir(path)); err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return disk.Create(path, size)
	case err != nil:
		return fault.New(fault.Unavailable, "open data disk", path, err).Advise("Make its folder accessible for you, or set " + config.HomeVariable + " to another home.")
	case info.Size() < size:
		return disk.Grow(path, size)
	}
	return nil
}

// Reset removes the data disk.
func (s *Site) Reset(context.Context) error { return removeFile(s.home.DataDisk()) }

// Remove removes the data disk, the images and the links to them. Packs and
// the workspace stay.
func (s *Site) Remove(ctx context.Context) error {
	// The record goes first: what is half removed is not provisioned.
	for _, path := range []string{s.recordFile(), s.home.DataDisk(), s.home.Kernel(), s.home.BaseImage()} {
		if err := removeFile(path); err != nil {
			return err
		}
	}
	s.ready = prepared{}
	return s.images.Clear(ctx)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "remove", path, err).Advise("See that its folder is writable.")
	}
	return nil
}

// link shows the image that was chosen under the names that others know.
func (s *Site) link(i image.Image) error {
	for name, target := range map[string]string{s.home.Kernel(): i.Kernel, s.home.BaseImage(): i.Base} {
		if now, err := os.Readlink(name); err == nil && now == target {
			continue
		}
		if _, err := s.home.Make(filepath.Dir(name)); err != nil {
			return err
		}
		temp := name + ".new"
		if err := errors.Join(removeFile(temp), os.Symlink(target, temp), os.Rename(temp, name)); err != nil {
			return fault.New(fault.Unavailable, "link", name, err).Advise("See that its folder is writable.")
		}
	}
	return nil
}

// network is the kind of network that the settings ask for.
func (s *Site) network(set config.Settings) vm.NetworkKind {
	if set.Network == config.NetworkOutbound && slices.Contains(s.networks, vm.NetworkNAT) {
		return vm.NetworkNAT
	}
	return vm.NetworkNone
}
