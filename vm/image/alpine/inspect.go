package alpine

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/untar"
)

// Download says what a downloaded file of a release is and holds.
type Download struct {
	File   string      `json:"file"`
	Size   int64       `json:"size"`
	SHA256 pack.Digest `json:"sha256"`
	Pinned string      `json:"pinned"` // the name of the pinned file that it is
	Arch   vm.Arch     `json:"arch"`

	Kernel  string `json:"kernel,omitempty"` // the release of an ISO's kernel
	Modules int    `json:"modules,omitempty"`
	Release string `json:"release,omitempty"` // the version of a root file system
}

// Inspect finds the pinned file that a downloaded ISO image or root file system is, and reads it as Build does. The
// error is fault.Rejected if it is none of them, or cannot be read.
func Inspect(ctx context.Context, file string, pins []Pins, report progress.Func) (Download, error) {
	const op = "verify download"
	is, err := pack.PinFile(ctx, filepath.Dir(file), filepath.Base(file))
	if err != nil {
		return Download{}, fault.Wrap(op, file, err)
	}
	temp, err := os.MkdirTemp("", "osaurus-verify-")
	if err != nil {
		return Download{}, fault.New(fault.Execution, op, file, err).Advise("Set TMPDIR to a folder that you may write.")
	}
	defer os.RemoveAll(temp)
	d := Download{File: file, Size: is.Size, SHA256: is.SHA256}
	p, err := d.find(pins)
	switch {
	case err != nil:
	case d.SHA256 == p.ISO.SHA256:
		err = d.readISO(ctx, temp, report)
	default:
		d.Release = p.Version
		err = copyRoot(ctx, file, filepath.Join(temp, rootName))
	}
	if ctx.Err() != nil {
		return d, fault.Wrap(op, file, ctx.Err())
	}
	if err != nil {
		return d, fault.New(fault.Rejected, op, file, err).
			Advise("Delete it and download it again from https://dl-cdn.alpinelinux.org/alpine/ (the same file, not a newer one). A file of `pack export` is checked by `pack import`.")
	}
	return d, nil
}

// find returns the release of the pinned file that has the download's digest.
func (d *Download) find(pins []Pins) (Pins, error) {
	var names []string
	var wrong error // of a file with the name of a pinned one
	for _, p := range pins {
		for _, f := range []fetch.File{p.ISO, p.Root} {
			name := path.Base(f.URL)
			names = append(names, name)
			switch {
			case f.SHA256 == d.SHA256:
				d.Pinned, d.Arch = name, p.Arch
				return p, nil
			case name != filepath.Base(d.File):
			case f.Size != d.Size:
				wrong = fmt.Errorf("it has %d bytes, but %d are pinned for %s", d.Size, f.Size, name)
			default:
				wrong = fmt.Errorf("its SHA-256 is %s, but %s is pinned for %s", d.SHA256, f.SHA256, name)
			}
		}
	}
	return Pins{}, cmp.Or(wrong, fmt.Errorf("it is none of the pinned files: %s", strings.Join(names, ", ")))
}

// readISO unpacks kernel and modules into a folder, and looks for the modules that guests need.
func (d *Download) readISO(ctx context.Context, dir string, report progress.Func) error {
	if err := unpackISO(ctx, d.File, d.Arch, dir, report); err != nil {
		return err
	}
	walk := func(visit func(*tar.Header, io.Reader) error) error {
		file, err := os.Open(filepath.Join(dir, modulesName))
		if err != nil {
			return err
		}
		defer file.Close()
		return untar.Walk(file, modulesName, visit)
	}
	if err := walk(func(h *tar.Header, _ io.Reader) error {
		if _, _, ok := kernel.ModuleName(h.Name); ok && h.Typeflag == tar.TypeReg {
			d.Kernel, _, _ = strings.Cut(strings.TrimPrefix(h.Name, "lib/modules/"), "/")
			d.Modules++
		}
		return nil
	}); err != nil {
		return err
	}
	return image.CheckModules(ctx, walk)
}
