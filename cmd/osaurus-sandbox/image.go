package main

import (
	"context"
	"fmt"
	"os"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/progress"
)

// image is what the flags and settings say to boot. What is missing for it is
// made: the pack, and the image out of the pack.
func (f bootFlags) image(ctx context.Context, home config.Home, s config.Settings, report progress.Func) (image.Image, error) {
	ref := s.Pack
	if f.pack != "" {
		var err error
		if ref, err = packRef(f.pack); err != nil {
			return image.Image{}, err
		}
	}
	p, err := findPack(ctx, home, ref, vm.Arch(f.arch), report)
	if err != nil {
		return image.Image{}, err
	}
	store := image.Store{Dir: home.Images(), Init: func(arch vm.Arch) ([]byte, error) { return embedded.Guest(string(arch)) }}
	return store.Ensure(ctx, p, report)
}

// findPack is the pack that is meant, for an architecture or (if it is empty)
// for this host's where there is a choice.
func findPack(ctx context.Context, home config.Home, ref config.PackRef, arch vm.Arch, report progress.Func) (pack.Pack, error) {
	p, err := locatePack(ctx, home, ref, arch, report)
	if err == nil && arch != "" && p.Manifest.Arch != arch {
		return pack.Pack{}, fault.New(fault.InvalidArgs, "boot", p.Manifest.Name, fmt.Errorf("the pack is for %s", p.Manifest.Arch)).
			Advise("Leave --arch out, or name another pack.")
	}
	return p, err
}

func locatePack(ctx context.Context, home config.Home, ref config.PackRef, arch vm.Arch, report progress.Func) (pack.Pack, error) {
	store := pack.Store{Dir: home.Packs()}
	if path, ok := ref.Path(); ok {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return store.Import(ctx, path, report)
		}
		return pack.Open(path)
	}
	return store.Get(string(ref))
}
