package main

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/progress"
)

// image is what is to be booted: of the pack that the flags name, or else of
// the one that the settings name. What is missing is made, the pack and the
// image out of it.
func (f bootFlags) image(ctx context.Context, home config.Home, ref config.PackRef, report progress.Func) (image.Image, error) {
	if f.pack != "" {
		var err error
		if ref, err = packRef(f.pack); err != nil {
			return image.Image{}, err
		}
	}
	choice, err := packSources(home).Get(ctx, string(ref), vm.Arch(f.arch), report)
	if err != nil {
		return image.Image{}, err
	}
	store := image.Store{Dir: home.Images(), Init: func(arch vm.Arch) ([]byte, error) { return embedded.Guest(string(arch)) }}
	return store.Ensure(ctx, choice.Pack, report)
}
