package kernel

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"osaurus-sandbox/internal/fault"
)

// Module is a kernel module in the form that init_module(2) loads.
type Module struct {
	Name string // with underscores, as the kernel writes it
	Data []byte // uncompressed ELF without a signature
}

// ModuleTree holds the modules that ReadModules was asked for and their dependencies.
type ModuleTree struct {
	modules map[string]Module
	lists
}

const (
	// maxModule bounds a module, compressed or not. The largest that distributions
	// ship (amdgpu, unstripped) have about 30 MB.
	maxModule = 64 << 20
	// maxTotal bounds a tree, which goes into the guest's memory. Ours have about 5 MB.
	maxTotal = 256 << 20
)

// WalkFunc calls visit for every entry of an archive of lib/modules/RELEASE, and
// stops at the first error that visit returns.
type WalkFunc func(visit func(h *tar.Header, content io.Reader) error) error

// ReadModules reads the named modules and their dependencies. It walks twice, first for
// depmod's lists and then for the modules: keeping all of them would take 100 MB.
// Names that the tree does not have are ignored here and reported by Order.
func ReadModules(ctx context.Context, walk WalkFunc, names ...string) (*ModuleTree, error) {
	t := &ModuleTree{modules: map[string]Module{}, lists: newLists()}
	if err := walk(func(h *tar.Header, content io.Reader) error {
		return cmp.Or(ctx.Err(), t.lists.read(h, content))
	}); err != nil {
		return nil, fault.Wrap("read kernel modules", "", err)
	}
	if t.found == 0 {
		return nil, fault.Newf(fault.NotFound, "read kernel modules", "", "no modules.dep and no modules.builtin").
			Advise("Run depmod for the kernel's modules, and make the pack again.")
	}
	wanted := t.closure(names)
	total := 0
	err := walk(func(h *tar.Header, content io.Reader) error {
		name, packing, ok := ModuleName(h.Name)
		if err := ctx.Err(); err != nil || h.Typeflag != tar.TypeReg || !ok || !wanted[name] {
			return err
		}
		data, err := unpackModule(packing, content)
		if err != nil {
			return fault.New(fault.Rejected, "unpack", h.Name, err)
		}
		if total += len(data); total > maxTotal {
			return fault.Newf(fault.Rejected, "", "", "modules of more than %d bytes", maxTotal)
		}
		delete(wanted, name) // the first of a name wins
		t.modules[name] = Module{Name: name, Data: unsigned(data)}
		return nil
	})
	if err != nil {
		return nil, fault.Wrap("read kernel modules", "", err)
	}
	return t, nil
}

// Has reports whether the kernel has the module, loadable or built in.
func (t *ModuleTree) Has(name string) bool {
	_, ok := t.modules[canonical(name)]
	return ok || t.builtin[canonical(name)]
}

// Order returns the named modules and their dependencies in the order to load them,
// without those built into the kernel. It fails with fault.NotFound if the kernel
// lacks one.
func (t *ModuleTree) Order(names ...string) ([]Module, error) {
	var order []Module
	state := map[string]int{} // 0 not seen, 1 being visited, 2 done
	var visit func(name, neededBy string) error
	visit = func(name, neededBy string) error {
		m, ok := t.modules[name]
		switch {
		case state[name] == 2 || !ok && t.builtin[name]:
			return nil
		case !ok:
			err := errors.New("the kernel does not have this module")
			if neededBy != "" {
				err = fmt.Errorf("%w, but %s needs it", err, neededBy)
			}
			return fault.New(fault.NotFound, "find kernel module", name, err).
				Advise("Use a pack whose modules belong to its kernel.")
		case state[name] == 1:
			return fault.Newf(fault.Rejected, "order kernel modules", name, "it depends on itself")
		}
		state[name] = 1
		for _, n := range t.softdeps[name] {
			// Soft dependencies may name an algorithm instead of a module, and may be circular.
			if t.Has(n) && state[n] == 0 {
				if err := visit(n, name); err != nil {
					return err
				}
			}
		}
		for _, n := range t.needs[name] {
			if err := visit(n, name); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, m)
		return nil
	}
	for _, n := range names {
		if err := visit(canonical(n), ""); err != nil {
			return nil, err
		}
	}
	return slices.Clip(order), nil
}

// unpackModule reads a module whose packing is "", ".gz", ".xz" or ".zst".
func unpackModule(packing string, r io.Reader) ([]byte, error) {
	switch packing {
	case ".gz":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return readAll(z, maxModule)
	case ".xz":
		z, err := xz.NewReader(r, maxModule)
		if err != nil {
			return nil, err
		}
		return readAll(z, maxModule)
	case ".zst":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModule))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return readAll(z, maxModule)
	}
	return readAll(r, maxModule)
}

// signatureMark ends a signed module. Before it come the signature and a header of
// twelve bytes, whose last four are the signature's length.
const signatureMark = "~Module signature appended~\n"

// unsigned returns a module without its signature. The pack's digest has vouched for
// it already, and without a signature the guest loads it four times as fast.
func unsigned(module []byte) []byte {
	const head = 12
	rest, ok := bytes.CutSuffix(module, []byte(signatureMark))
	if !ok || len(rest) < head {
		return module
	}
	size := int64(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	if size > int64(len(rest)-head) {
		return module
	}
	return rest[:int64(len(rest)-head)-size]
}
