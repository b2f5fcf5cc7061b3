// Package modules picks the kernel modules that a guest needs out of a kernel's module tree, and says in which order to load them.
package modules

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"osaurus-sandbox/internal/fault"
)

// Module is a kernel module as init_module(2) takes it.
type Module struct {
	Name string // with underscores, as the kernel writes it
	Data []byte // ELF, not compressed, without a signature
}

// Tree holds some modules of a kernel: those that were asked for, and all
// that they need.
type Tree struct {
	modules map[string]Module
	lists
}

const (
	// maxModule bounds a module in bytes, compressed or not. The largest that
	// distributions ship (amdgpu, unstripped) have about 30 MB.
	maxModule = 64 << 20
	// maxTotal bounds what one tree may hold: all of it goes into the guest's
	// memory. Ours have about 5 MB.
	maxTotal = 256 << 20
)

// Walk visits every entry of a module tree's archive, lib/modules/RELEASE and
// below, with its content, and stops at the first error that visit returns.
type Walk func(visit func(h *tar.Header, content io.Reader) error) error

// Read collects the named modules and what they need, as depmod's lists in the
// tree say. It walks twice, for the lists and for the modules, because an
// archive has no way back and keeping all modules would take 100 MB. A name
// that the tree does not have is no error here, but when it is ordered.
func Read(ctx context.Context, walk Walk, names ...string) (*Tree, error) {
	t := &Tree{modules: map[string]Module{}, lists: newLists()}
	if err := walk(func(h *tar.Header, content io.Reader) error {
		return cmp.Or(ctx.Err(), t.lists.read(h, content))
	}); err != nil {
		return nil, fault.Wrap("read kernel modules", "", err)
	}
	if t.found == 0 {
		return nil, fault.Newf(fault.NotFound, "read kernel modules", "", "there is neither a modules.dep nor a modules.builtin").
			Advise("Run depmod for the kernel's modules, and make the pack again.")
	}
	wanted := t.closure(names)
	total := 0
	err := walk(func(h *tar.Header, content io.Reader) error {
		name, packing, ok := FileName(h.Name)
		if err := ctx.Err(); err != nil || h.Typeflag != tar.TypeReg || !ok || !wanted[name] {
			return err
		}
		data, err := Unpack(packing, content)
		if err != nil {
			return fault.New(fault.Rejected, "unpack", h.Name, err)
		}
		if total += len(data); total > maxTotal {
			return fault.Newf(fault.Rejected, "", "", "the modules have more than %d bytes", maxTotal)
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

// Has reports whether the kernel has the module, as a file or built in.
func (t *Tree) Has(name string) bool {
	_, ok := t.modules[canonical(name)]
	return ok || t.builtin[canonical(name)]
}

// Order returns the named modules and what they need, each after all that it
// needs itself. What is built into the kernel is left out. It fails with
// fault.NotFound naming the first module that the kernel does not have.
func (t *Tree) Order(names ...string) ([]Module, error) {
	var order []Module
	state := map[string]int{} // 0 not seen, 1 being visited, 2 done
	var visit func(name, neededBy string) error
	visit = func(name, neededBy string) error {
		m, ok := t.modules[name]
		switch {
		case state[name] == 2 || !ok && t.builtin[name]:
			return nil
		case !ok:
			err := errors.New("this kernel has no such module, neither as a file nor built in")
			if neededBy != "" {
				err = fmt.Errorf("%w, but %s needs it", err, neededBy)
			}
			return fault.New(fault.NotFound, "find kernel module", name, err).
				Advise("Take a pack whose modules belong to its kernel.")
		case state[name] == 1:
			return fault.Newf(fault.Rejected, "order kernel modules", name, "it needs itself")
		}
		state[name] = 1
		for _, n := range t.wishes[name] {
			// Wishes may name an algorithm in place of a module, and may go round in circles.
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
