// Package image builds boot images from packs and stores them, each under its digest.
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

// Image names the files that a machine boots. The files belong to a Store.
type Image struct {
	Arch vm.Arch
	// Kernel, Initrd and Base are paths. Base is a read-only ext4 file system.
	Kernel, Initrd, Base string
	// Digest identifies the image. The same pack and guest program give the same
	// digest on every host.
	Digest pack.Digest
	// BaseDigest identifies the base.
	BaseDigest pack.Digest

	boot, base part
}

// VerifyBoot reads kernel and initramfs. It fails with fault.Rejected if a file has changed, and with
// fault.NotFound if one is missing. 400 MB take a quarter of a second.
func (i Image) VerifyBoot(ctx context.Context) error { return i.boot.verify(ctx) }

// VerifyBase is VerifyBoot for the base. The guest runs nothing from it before the host
// connects.
func (i Image) VerifyBase(ctx context.Context) error { return i.base.verify(ctx) }

// Store is a folder of built images, which several programs may use at once.
type Store struct {
	Dir string
	// Programs returns the files to add to the initramfs of an architecture, by name.
	// One of them is init.
	Programs func(vm.Arch) (map[string][]byte, error)
}

// An image has two parts, because they change at different times: a new guest program
// needs a new initramfs, but no new base.
const (
	bootKind    = "boot" // kernel and initramfs
	baseKind    = "base"
	toolboxKind = "toolbox" // a base with packages added
)

// The names of an image's files and the formats of its parts. Raise a format to rebuild
// all parts of its kind.
const (
	kernelName = "vmlinux"
	initrdName = "initramfs"
	baseName   = "initfs.ext4"

	bootFormat = 1
	baseFormat = 1
)

// Ensure returns the image of a pack and builds missing parts. It verifies the pack
// before building, but not parts that exist: see Image.VerifyBoot. Only one program builds
// at a time.
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

// EnsureToolbox is Ensure for a base with packages added; recipe identifies them. If the
// base does not exist, build makes it: it gets the image with the bare base and a folder
// to call WriteBase for. Other files that it writes to the folder are kept too.
func (s Store) EnsureToolbox(ctx context.Context, p pack.Pack, recipe []string, report progress.Func,
	build func(ctx context.Context, bare Image, dir string) error) (Image, error) {
	bare, err := s.Ensure(ctx, p, report)
	if err != nil {
		return Image{}, err
	}
	base, err := s.ensure(ctx, toolboxKind, label(p), toolboxKey(p, recipe), report, func(ctx context.Context, dir string) error {
		return build(ctx, bare, dir)
	})
	if err != nil {
		return Image{}, err
	}
	return newImage(bare.Arch, bare.boot, base), nil
}

// HasToolbox reports whether the base for EnsureToolbox exists.
func (s Store) HasToolbox(p pack.Pack, recipe []string) bool {
	_, err := openPart(s.folders(toolboxKind).Path(partName(label(p), toolboxKey(p, recipe))))
	return err == nil
}

func baseKey(p pack.Pack) pack.Digest {
	return key(baseKind, fmt.Sprint(baseFormat), p.Manifest.Root.SHA256.String())
}

func toolboxKey(p pack.Pack, recipe []string) pack.Digest {
	return key(append([]string{toolboxKind, baseKey(p).String()}, recipe...)...)
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
		Digest: key("image", boot.digest().String(), base.digest().String()),
		boot:   boot, base: base,
		BaseDigest: base.digest(),
	}
}

// label is the readable part of a folder's name, which old and new images of a
// distribution share.
func label(p pack.Pack) string { return p.Manifest.Distribution + "-" + string(p.Manifest.Arch) }

// key returns a digest of words.
func key(words ...string) pack.Digest {
	return sha256.Sum256(fmt.Appendf(nil, "%q", words))
}
