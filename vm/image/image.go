// Package image makes what a machine boots out of a pack, once for each content, and keeps it sealed.
package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/pack"
)

// Image is what a machine boots. It is plain data; its files belong to a Store.
type Image struct {
	Arch vm.Arch
	// Kernel, Initrd and Base are files: the first two for the boot loader,
	// the last an ext4 file system that never changes.
	Kernel, Initrd, Base string
	// Digest is what the image is known by: of the same pack and the same
	// guest program it is the same on every host.
	Digest pack.Digest
	// BaseDigest is what the base alone is known by.
	BaseDigest pack.Digest

	boot, base part
}

// Verify reads the image and fails with fault.Rejected, naming the file and
// both digests, when a byte of it is not what was built, and with
// fault.NotFound when a file is missing. All processors help:
// it takes about a quarter of a second for 400 MB on two of them.
func (i Image) Verify(ctx context.Context) error {
	if err := i.VerifyBoot(ctx); err != nil {
		return err
	}
	return i.VerifyBase(ctx)
}

// VerifyBoot is Verify for what a machine starts with: kernel and initramfs.
func (i Image) VerifyBoot(ctx context.Context) error { return i.boot.verify(ctx) }

// VerifyBase is Verify for the base, of which nothing is run before the guest
// has been greeted.
func (i Image) VerifyBase(ctx context.Context) error { return i.base.verify(ctx) }

// Store is a folder of built images. Any number of programs may use it at once.
type Store struct {
	Dir string
	// Programs returns what the guest is given for an architecture, by the names
	// of files in the initramfs. Among them is init, its first program.
	Programs func(vm.Arch) (map[string][]byte, error)
}

// An image is two parts, since they change at different times: a new guest
// program makes a new initramfs, but not a new base.
const (
	bootKind  = "boot" // kernel and initramfs
	baseKind  = "base"
	bakedKind = "baked" // a base that something was added to
)

// The names of an image's files, and the formats of what is in them. Raising
// a format builds everything anew.
const (
	kernelName = "vmlinux"
	initrdName = "initramfs"
	baseName   = "initfs.ext4"

	bootFormat = 1
	baseFormat = 1
)

// Ensure returns the image of a pack, and builds what is missing of it. While
// it builds, other programs that want to build wait. A pack is verified before
// anything is built of it. Nothing is read of what is there already: that is
// what Verify is for.
func (s Store) Ensure(ctx context.Context, p pack.Pack, report progress.Func) (Image, error) {
	verified := sync.OnceValue(func() error { return p.Verify(ctx, report) })
	boot, err := s.ensureBoot(ctx, p, verified, report)
	if err != nil {
		return Image{}, err
	}
	base, err := s.ensure(ctx, baseKind, label(p), baseKey(p), report, func(ctx context.Context, dir string) error {
		if err := verified(); err != nil {
			return err
		}
		return buildBase(ctx, p, dir, report)
	})
	if err != nil {
		return Image{}, err
	}
	return newImage(p.Manifest.Arch, boot, base), nil
}

// EnsureBaked is Ensure for a base that something is added to: recipe stands
// for what. Where there is no such base, bake makes it in a folder: it writes
// the base with WriteBase, and what it wants to have kept beside it. It is
// given the image with the bare base.
func (s Store) EnsureBaked(ctx context.Context, p pack.Pack, recipe []string, report progress.Func,
	bake func(ctx context.Context, bare Image, dir string) error) (Image, error) {
	bare, err := s.Ensure(ctx, p, report)
	if err != nil {
		return Image{}, err
	}
	base, err := s.ensure(ctx, bakedKind, label(p), bakedKey(p, recipe), report, func(ctx context.Context, dir string) error {
		return bake(ctx, bare, dir)
	})
	if err != nil {
		return Image{}, err
	}
	return newImage(bare.Arch, bare.boot, base), nil
}

// IsBaked reports whether EnsureBaked would find its base.
func (s Store) IsBaked(p pack.Pack, recipe []string) bool {
	_, err := openPart(s.place(bakedKind, label(p), bakedKey(p, recipe)))
	return err == nil
}

func baseKey(p pack.Pack) pack.Digest {
	return key(baseKind, fmt.Sprint(baseFormat), p.Manifest.Root.SHA256.String())
}

func bakedKey(p pack.Pack, recipe []string) pack.Digest {
	return key(append([]string{bakedKind, baseKey(p).String()}, recipe...)...)
}

func (s Store) ensureBoot(ctx context.Context, p pack.Pack, verified func() error, report progress.Func) (part, error) {
	programs, err := s.Programs(p.Manifest.Arch)
	if err != nil {
		return part{}, err
	}
	m := p.Manifest
	words := []string{bootKind, fmt.Sprint(bootFormat), m.Kernel.SHA256.String(), m.Modules.SHA256.String()}
	words = append(words, Modules()...)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		words = append(words, name, pack.Digest(sha256.Sum256(programs[name])).String())
	}
	key := key(words...)
	return s.ensure(ctx, bootKind, label(p), key, report, func(ctx context.Context, dir string) error {
		if err := verified(); err != nil {
			return err
		}
		if err := copyKernel(ctx, p, filepath.Join(dir, kernelName)); err != nil {
			return err
		}
		meter := report.Start("build initramfs", 0, 0)
		defer meter.Finish()
		return buildInitramfs(ctx, p, programs, filepath.Join(dir, initrdName))
	})
}

func newImage(arch vm.Arch, boot, base part) Image {
	return Image{
		Arch: arch, Kernel: boot.path(kernelName), Initrd: boot.path(initrdName), Base: base.path(baseName),
		Digest: key("image", boot.seal.digest().String(), base.seal.digest().String()),
		boot:   boot, base: base,
		BaseDigest: base.seal.digest(),
	}
}

// label is the part of a folder's name that people recognize, and that old
// and new images have in common.
func label(p pack.Pack) string { return p.Manifest.Distribution + "-" + string(p.Manifest.Arch) }

// key is a digest over words, each of which counts.
func key(words ...string) pack.Digest {
	return sha256.Sum256(fmt.Appendf(nil, "%q", words))
}
