package boot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/network"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/image/sources"
)

// Site holds the files that a home's sandbox boots from. Its user holds the lock
// of the home and calls one method at a time, except Provisioned.
type Site struct {
	home    config.Home
	driver  vm.Driver
	arch    vm.Arch
	folders *vm.Subtrees
	bridge  *bridge.Server
	network network.Options

	sources *sources.Sources
	images  image.Store

	can   vm.Capabilities
	ready prepared
}

// prepared is the result of Prepare.
type prepared struct {
	image   image.Image
	choice  sources.Choice
	missing []string // packages of the toolbox
}

// New returns the site of a home for guests of arch. folders are the agents' folders in the
// workspace. The bridge may be nil. gateway configures the network of guests that have one.
func New(home config.Home, driver vm.Driver, arch vm.Arch, folders *vm.Subtrees, bridge *bridge.Server, gateway network.Options) *Site {
	return &Site{
		home: home, driver: driver, arch: arch, folders: folders, bridge: bridge, network: gateway,
		sources: sources.New(home.Packs(), home.Downloads()),
		images:  image.Store{Dir: home.Images(), Programs: embedded.Programs[vm.Arch]},
	}
}

// Check returns the driver's accelerator, or an error if this host cannot run machines.
func (s *Site) Check(ctx context.Context) (accelerator string, err error) {
	s.can, err = s.driver.Capabilities(ctx, s.arch)
	return s.can.Accelerator, err
}

// Prepare makes the files that a boot with these settings needs. If fresh is set, it
// verifies existing ones and makes broken parts again.
func (s *Site) Prepare(ctx context.Context, set config.Settings, fresh bool, tracker *progress.Tracker) error {
	known, _ := readRecord(s.home)
	var p prepared
	err := tracker.Do(progress.StepPack, func(report progress.Func) (err error) {
		if p.choice, err = s.sources.Get(ctx, string(set.Pack), s.arch, report); err == nil && fresh {
			err = p.choice.Pack.Verify(ctx, report)
		}
		return err
	})
	if err != nil {
		return err
	}
	builder := NewToolboxBuilder(s.home, set, s.driver, s.images)
	find := builder.Find
	if fresh {
		find = builder.Repair
	}
	err = tracker.Do(progress.StepImage, func(report progress.Func) (err error) {
		p.image, p.missing, err = find(ctx, p.choice.Pack, report)
		return err
	})
	if err != nil {
		return err
	}
	switch {
	case len(p.missing) == 0:
		tracker.Skip(progress.StepToolbox, "included in the image")
	case !fresh && known.fits(set) && len(known.Missing) > 0:
		tracker.Skip(progress.StepToolbox, "an earlier install failed; `osaurus-sandbox provision` tries again")
	default:
		if err := s.buildToolbox(ctx, builder, &p, tracker); err != nil {
			return err
		}
	}
	if err := tracker.Do(progress.StepDisk, func(progress.Func) error { return s.makeDisk(set) }); err != nil {
		return err
	}
	s.ready = p
	return s.writeRecord(record{Pack: set.Pack, Toolbox: set.Toolbox, Image: p.image.Digest.String(), Kernel: p.image.Kernel, Base: p.image.Base, BaseDigest: p.image.BaseDigest.String(), Missing: p.missing})
}

// buildToolbox installs the toolbox. If no mirror can be reached, the bare image is
// used: a sandbox without tools is better than none.
func (s *Site) buildToolbox(ctx context.Context, builder ToolboxBuilder, p *prepared, tracker *progress.Tracker) error {
	var unreachable error
	err := tracker.Do(progress.StepToolbox, func(report progress.Func) error {
		built, err := builder.Build(ctx, p.choice.Pack, report)
		switch {
		case err == nil:
			p.image, p.missing = built, nil
		case ctx.Err() == nil && fault.KindOf(err) == fault.Unavailable:
			unreachable, err = err, nil
		}
		return err
	})
	if unreachable != nil {
		tracker.Skip(progress.StepToolbox, unreachable.Error())
	}
	return err
}

// makeDisk creates or grows the data disk. It never shrinks it: a smaller size
// applies after the next reset.
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
		return fault.New(fault.Unavailable, "open data disk", path, err).Advise("Give yourself access to its folder, or set " + config.HomeVariable + " to another home.")
	case info.Size() < size:
		return disk.Grow(path, size)
	}
	return nil
}

// Reset removes the data disk.
func (s *Site) Reset(context.Context) error { return removeFile(s.home.DataDisk()) }

// Remove removes the data disk and the images. It keeps packs and the workspace.
func (s *Site) Remove(ctx context.Context) error {
	// The record goes first, so that a home with parts missing is not provisioned.
	for _, path := range []string{recordFile(s.home), s.home.DataDisk()} {
		if err := removeFile(path); err != nil {
			return err
		}
	}
	s.ready = prepared{}
	return s.images.Clear(ctx)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "remove", path, err).Advise("Make its folder writable.")
	}
	return nil
}
