package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/pack"
)

// eachModuleFile calls write for every file of a kernel's modules.
func (k Kernel) eachModuleFile(write func(name string, b []byte) error) error {
	all := os.DirFS(k.Modules)
	return fs.WalkDir(all, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := fs.ReadFile(all, name)
		if err != nil {
			return err
		}
		return write(name, b)
	})
}

// needed returns a function that says whether an image needs a file of a kernel's modules.
func (k Kernel) needed(ctx context.Context) (func(name string) bool, error) {
	walk := func(visit func(*tar.Header, io.Reader) error) error {
		return k.eachModuleFile(func(name string, b []byte) error {
			return visit(&tar.Header{Typeflag: tar.TypeReg, Name: name}, bytes.NewReader(b))
		})
	}
	tree, err := kernel.ReadModules(ctx, walk, image.Modules()...)
	if err != nil {
		return nil, err
	}
	taken, err := tree.Order(slices.DeleteFunc(image.Modules(), func(name string) bool { return !tree.Has(name) })...)
	return func(name string) bool {
		module, _, ok := kernel.ModuleName(name)
		return !ok || slices.ContainsFunc(taken, func(m kernel.Module) bool { return m.Name == module })
	}, err
}

// guestModules packs the modules of a kernel that an image needs. All modules are twenty
// times larger, and slow in tests that build images. The Debian pack has all.
func guestModules(ctx context.Context, k Kernel, path string) error {
	needed, err := k.needed(ctx)
	if err != nil {
		return err
	}
	return pack.WriteZstd(path, "", nil, func(w io.Writer) error {
		out := tar.NewWriter(w)
		write := func(name string, b []byte) error {
			if !needed(name) {
				return nil
			}
			err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "lib/modules/" + k.Release + "/" + name, Size: int64(len(b)), Mode: 0o644})
			if err == nil {
				_, err = out.Write(b)
			}
			return err
		}
		return errors.Join(k.eachModuleFile(write), out.Close())
	})
}

// guestModulesKey is part of the names of packs: another list of modules makes other packs.
func guestModulesKey() string {
	sum := sha256.Sum256([]byte(strings.Join(image.Modules(), " ")))
	return fmt.Sprintf("%x", sum[:4])
}
