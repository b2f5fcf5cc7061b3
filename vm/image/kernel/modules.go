package kernel

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

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
	builtin map[string]bool     // part of the kernel
	needs   map[string][]string // dependencies
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

// ReadModules reads the named modules and their dependencies, which the modules
// themselves name. It walks until it has found them all, usually four times: keeping
// every module of a kernel would take 100 MB. Names that the tree does not have are
// ignored here and reported by Order.
func ReadModules(ctx context.Context, walk WalkFunc, names ...string) (*ModuleTree, error) {
	t := &ModuleTree{modules: map[string]Module{}, builtin: map[string]bool{}, needs: map[string][]string{}}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[canonical(name)] = true
	}
	total := 0
	for before := -1; before < len(t.modules); {
		before = len(t.modules)
		err := walk(func(h *tar.Header, content io.Reader) error {
			if h.Typeflag == tar.TypeReg && path.Base(h.Name) == "modules.builtin" {
				return t.readBuiltin(content)
			}
			name, packing, ok := ModuleName(h.Name)
			if _, have := t.modules[name]; ctx.Err() != nil || h.Typeflag != tar.TypeReg || !ok || !wanted[name] || have {
				return ctx.Err()
			}
			data, err := decompress(content, packing, maxModule)
			if err == nil {
				err = t.readDependencies(name, data)
			}
			if err != nil {
				return fault.New(fault.Rejected, "read", h.Name, err)
			}
			if total += len(data); total > maxTotal {
				return fault.Newf(fault.Rejected, "", "", "modules of more than %d bytes", maxTotal)
			}
			for _, n := range t.needs[name] {
				wanted[n] = true
			}
			t.modules[name] = Module{Name: name, Data: unsigned(data)}
			return nil
		})
		if err != nil {
			return nil, fault.Wrap("read kernel modules", "", err)
		}
	}
	return t, nil
}

// readBuiltin reads lines such as "kernel/fs/ext4/ext4.ko".
func (t *ModuleTree) readBuiltin(content io.Reader) error {
	text, err := readAll(content, maxModule)
	for line := range strings.Lines(string(text)) {
		if name, _, ok := ModuleName(strings.TrimSpace(line)); ok {
			t.builtin[name] = true
		}
	}
	return err
}

// readDependencies reads the line "depends=a,b" of a module. It ignores soft dependencies, which
// name algorithms: an image lists the modules that have them.
func (t *ModuleTree) readDependencies(name string, module []byte) error {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return errors.New("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(canonical(line), "depends="); ok {
			t.needs[name] = strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
		}
	}
	return nil
}

// canonical returns a module's name as the kernel writes it.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// ModuleName splits the name of a module's file: virtio-rng.ko.gz is the module
// virtio_rng with packing ".gz". It reports false for other files.
func ModuleName(file string) (name, packing string, ok bool) {
	stem, packing, ok := strings.Cut(path.Base(file), ".ko")
	if !ok || stem == "" || !slices.Contains([]string{"", ".gz", ".xz", ".zst"}, packing) {
		return "", "", false
	}
	return canonical(stem), packing, true
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
