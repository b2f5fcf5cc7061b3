// Package alpine makes packs from a pinned Alpine release: the kernel and modules of its ISO image and its minimal root file system.
package alpine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kdomanski/iso9660"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/untar"
)

// The files of a pack.
const (
	kernelName  = "kernel"
	modulesName = "modules.tar.zst"
	rootName    = "root.tar.gz"
)

// Build downloads a release and writes a pack's files to a folder, for pack.Store.Build. It
// keeps the downloads: see fetch.Client.Forget.
func Build(ctx context.Context, pins Pins, client *fetch.Client, dir string, report progress.Func) (pack.Manifest, error) {
	root, err := client.Get(ctx, pins.Root, report)
	if err != nil {
		return pack.Manifest{}, err
	}
	iso, err := client.Get(ctx, pins.ISO, report)
	if err != nil {
		return pack.Manifest{}, err
	}
	if err := errors.Join(copyRoot(ctx, root, filepath.Join(dir, rootName)), unpackISO(ctx, iso, pins.Arch, dir, report)); err != nil {
		return pack.Manifest{}, fault.Wrap("make pack", pins.Name(), err)
	}
	return pack.Manifest{
		Distribution: "alpine", Version: pins.Version, Arch: pins.Arch, PackageTool: pack.APK,
		Kernel: pack.File{Name: kernelName}, Modules: pack.File{Name: modulesName}, Root: pack.File{Name: rootName},
		Origins: []pack.Origin{origin(pins.ISO), origin(pins.Root)},
	}, nil
}

func origin(f fetch.File) pack.Origin {
	return pack.Origin{Name: path.Base(f.URL), SHA256: f.SHA256}
}

// copyRoot copies and validates the root file system's archive.
func copyRoot(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return pack.WriteFile(to, func(out io.Writer) error { return untar.Filter(ctx, io.Discard, io.TeeReader(in, out), from) })
}

// unpackISO extracts the kernel and its modules from the image.
func unpackISO(ctx context.Context, name string, arch vm.Arch, dir string, report progress.Func) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := openInISO(file, "boot/vmlinuz-virt")
	if err != nil {
		return err
	}
	if err := kernel.Write(arch, packed, filepath.Join(dir, kernelName)); err != nil {
		return err
	}
	modloop, err := openInISO(file, "boot/modloop-virt")
	if err != nil {
		return err
	}
	return pack.WriteZstd(filepath.Join(dir, modulesName), "unpack the kernel's modules", report, func(w io.Writer) error {
		return writeModules(ctx, w, modloop)
	})
}

// openInISO opens a file of an ISO 9660 image.
func openInISO(iso io.ReaderAt, name string) (*io.SectionReader, error) {
	image, err := iso9660.OpenImage(iso)
	if err != nil {
		return nil, fmt.Errorf("not an ISO 9660 image: %w", err)
	}
	file, err := image.RootDir()
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(name, "/") {
		children, err := file.GetChildren()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(children, func(f *iso9660.File) bool { return f.Name() == part })
		if i < 0 {
			return nil, fmt.Errorf("the ISO image has no %s", name)
		}
		file = children[i]
	}
	content, ok := file.Reader().(*io.SectionReader)
	if !ok {
		return nil, fmt.Errorf("%s in the ISO image is not a file", name)
	}
	if _, err := content.ReadAt(make([]byte, 1), content.Size()-1); err != nil {
		return nil, fmt.Errorf("the ISO image is cut short: it ends before %s does", name)
	}
	return content, nil
}
