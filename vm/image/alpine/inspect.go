package alpine

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	Pinned string      `json:"pinned,omitempty"` // the name of the pinned file that it is or should be
	Arch   vm.Arch     `json:"arch"`

	Kernel  string `json:"kernel,omitempty"` // the release of an ISO's kernel
	Modules int    `json:"modules,omitempty"`
	Release string `json:"release,omitempty"` // the version of a root file system

	Problems []string `json:"problems"` // empty if a pack can be made of it
}

// maxNote bounds the short text files of a root file system that are read.
const maxNote = 256

// Inspect compares a downloaded ISO image or root file system with the pins of every
// architecture, and reads it as Build does. It reads the content of other files too, since
// that tells a damaged download from another release. The error is fault.Rejected if there
// are problems.
func Inspect(ctx context.Context, file string, pins []Pins, report progress.Func) (Download, error) {
	const op = "verify download"
	is, err := pack.PinFile(ctx, filepath.Dir(file), filepath.Base(file))
	if err != nil {
		return Download{}, fault.Wrap(op, file, err)
	}
	d := Download{File: file, Size: is.Size, SHA256: is.SHA256, Arch: vm.HostArch(), Problems: []string{}}
	found := []error{d.compare(pins)}
	temp, err := os.MkdirTemp("", "osaurus-verify-")
	if err != nil {
		return d, fault.New(fault.Execution, op, file, err).Advise("Set TMPDIR to a folder that you may write.")
	}
	defer os.RemoveAll(temp)
	if strings.HasSuffix(cmp.Or(d.Pinned, file), ".iso") {
		found = append(found, d.readISO(ctx, temp, report))
	} else {
		found = append(found, d.readRoot(ctx))
	}
	if ctx.Err() != nil {
		return d, fault.Wrap(op, file, ctx.Err())
	}
	for _, err := range found {
		if err != nil {
			d.Problems = append(d.Problems, err.Error())
		}
	}
	if err := errors.Join(found...); err != nil {
		return d, fault.New(fault.Rejected, op, file, err).
			Advise("Delete it and download it again from https://dl-cdn.alpinelinux.org/alpine/ (the same file, not a newer one). A file of `pack export` is checked by `pack import`.")
	}
	return d, nil
}

// compare finds the pinned file by digest, or by name if the digest is none of them.
func (d *Download) compare(pins []Pins) error {
	var names []string
	var want fetch.File
	for _, p := range pins {
		for _, f := range []fetch.File{p.ISO, p.Root} {
			name := path.Base(f.URL)
			names = append(names, name)
			if f.SHA256 == d.SHA256 || name == filepath.Base(d.File) {
				d.Pinned, d.Arch, want = name, p.Arch, f
			}
			if f.SHA256 == d.SHA256 {
				return nil
			}
		}
	}
	switch {
	case d.Pinned == "":
		return fmt.Errorf("it is none of the pinned files: %s", strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", "))
	case d.Size != want.Size:
		return fmt.Errorf("it has %d bytes, but %d are pinned for %s", d.Size, want.Size, d.Pinned)
	}
	return fmt.Errorf("its SHA-256 is %s, but %s is pinned for %s", d.SHA256, want.SHA256, d.Pinned)
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
	if err := image.CheckModules(ctx, walk); err != nil {
		return err
	}
	code, err := os.ReadFile(filepath.Join(dir, kernelName))
	if err == nil && !bytes.Contains(code, []byte(d.Kernel+" (")) {
		err = fmt.Errorf("its modules are for the kernel %s, which its kernel is not", d.Kernel)
	}
	return err
}

// readRoot reads a root file system to its end.
func (d *Download) readRoot(ctx context.Context) error {
	file, err := os.Open(d.File)
	if err != nil {
		return err
	}
	defer file.Close()
	machine := ""
	err = untar.Walk(file, d.File, func(h *tar.Header, content io.Reader) error {
		to := map[string]*string{"etc/alpine-release": &d.Release, "etc/apk/arch": &machine}[path.Clean(h.Name)]
		if to == nil {
			return ctx.Err()
		}
		text, err := io.ReadAll(io.LimitReader(content, maxNote))
		*to = strings.TrimSpace(string(text))
		return err
	})
	want := map[vm.Arch]string{vm.AMD64: "x86_64", vm.ARM64: "aarch64"}[d.Arch]
	switch {
	case err != nil:
		return err
	case d.Release == "":
		return errors.New("it is no root file system of Alpine: etc/alpine-release is missing")
	case machine != want:
		return fmt.Errorf("it is for %q, not for %s", machine, want)
	}
	return nil
}
