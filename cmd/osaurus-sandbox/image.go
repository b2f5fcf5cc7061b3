package main

import (
	"context"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/sources"
)

// packSources finds and makes packs.
func packSources(home config.Home) *sources.Sources {
	return sources.New(home.Packs(), home.Downloads())
}

// choosePack is the pack that a person means by text, or else the one of the
// settings. It is made if it can be and is not there.
func choosePack(ctx context.Context, home config.Home, s config.Settings, text, arch string, report progress.Func) (pack.Pack, error) {
	ref := s.Pack
	if text != "" {
		var err error
		if ref, err = packRef(text); err != nil {
			return pack.Pack{}, err
		}
	}
	choice, err := packSources(home).Get(ctx, string(ref), vm.Arch(arch), report)
	return choice.Pack, err
}

// baker makes images of packs, with the toolbox of the settings in them.
func baker(home config.Home, s config.Settings) boot.ToolboxBuilder {
	return boot.NewToolboxBuilder(home, s, driver(), image.Store{Dir: home.Images(), Programs: embedded.Programs[vm.Arch]})
}

// findImage is the image of a pack as it is here, built if there is none. It
// says what the guest will lack.
func findImage(ctx context.Context, b boot.ToolboxBuilder, p pack.Pack, report progress.Func) (image.Image, error) {
	i, missing, err := b.Find(ctx, p, report)
	if err == nil && len(missing) > 0 {
		report.Note("not installed in " + p.Manifest.Name + ": " + strings.Join(missing, " ") + " (`osaurus-sandbox pack build` adds them)")
	}
	return i, err
}

// buildImage makes the image of a pack as it should be: whole, and with the
// toolbox where the network allows that.
func buildImage(ctx context.Context, b boot.ToolboxBuilder, p pack.Pack, report progress.Func) error {
	// What is baked is baked of the bare one.
	bare := func() (image.Image, error) { return b.Images.Ensure(ctx, p, report) }
	if err := mend(ctx, b.Images, report, bare); err != nil {
		return err
	}
	var missing []string
	best := func() (i image.Image, err error) {
		i, missing, err = b.Find(ctx, p, report)
		return i, err
	}
	if err := mend(ctx, b.Images, report, best); err != nil || len(missing) == 0 {
		return err
	}
	_, err := b.Build(ctx, p, report)
	if fault.KindOf(err) == fault.Unavailable {
		report.Note("not installed: " + strings.Join(missing, " ") + ": " + err.Error() + "\n" + fault.AdviceOf(err))
		return nil
	}
	return err
}

// mend has an image built again that has changed since it was built, or lacks a file.
func mend(ctx context.Context, store image.Store, report progress.Func, find func() (image.Image, error)) error {
	i, err := find()
	if err != nil {
		return err
	}
	broken, err := store.DiscardBroken(ctx, i)
	if err != nil || broken == nil {
		return err
	}
	report.Note(broken.Error() + "; it is built again")
	_, err = find()
	return err
}
