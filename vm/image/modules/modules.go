// Package modules picks the kernel modules that a guest needs out of a kernel's module tree, and says in which order to load them.
package modules

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"osaurus-sandbox/fault"
)

// Module is a kernel module as init_module(2) takes it.
type Module struct {
	Name string // with underscores, as the kernel writes it
	Data []byte // ELF, not compressed, without a signature

	needs  []string // must be loaded before it
	wishes []string // should be loaded before it, if they exist
}

// Tree holds some modules of a kernel: those that were asked for, and all
// that they need.
type Tree struct {
	modules map[string]Module
	builtin map[string]bool
}

const (
	// maxModule bounds a module in bytes, compressed or not. The largest that
	// distributions ship (amdgpu, unstripped) have about 30 MB.
	maxModule = 64 << 20
	// maxTotal bounds what one tree may hold: all of it goes into the guest's
	// memory. Ours have about 5 MB.
	maxTotal = 256 << 20
	// maxDepth bounds the chain of modules that need each other, each step
	// of which costs a pass over the archive. Real ones have five.
	maxDepth = 32
)

// Walk visits every entry of a module tree's archive, lib/modules/RELEASE and
// below, with its content, and stops at the first error that visit returns.
type Walk func(visit func(h *tar.Header, content io.Reader) error) error

// Read collects the named modules and what they need from a module tree. It
// walks several times, because an archive has no way back and keeping all
// modules would take 100 MB. A name that the tree does not have
// is no error here, but when it is ordered.
//
// What a module needs is taken from the module itself (.modinfo), not from
// modules.dep: that is made by a program, depmod, which packages leave to the
// machine they are installed on.
func Read(ctx context.Context, walk Walk, names ...string) (*Tree, error) {
	t := &Tree{modules: map[string]Module{}, builtin: map[string]bool{}}
	seen := map[string]bool{}
	var total int
	for range maxDepth {
		wanted := map[string]bool{}
		for _, n := range names {
			if n = canonical(n); !seen[n] {
				seen[n], wanted[n] = true, true
			}
		}
		if len(wanted) == 0 {
			return t, nil
		}
		found, err := t.pass(ctx, walk, wanted)
		if err != nil {
			return nil, fault.New(fault.KindOf(err), "read kernel modules", "", err)
		}
		names = nil
		for _, m := range found {
			total += len(m.Data)
			names = append(append(names, m.needs...), m.wishes...)
		}
		if total > maxTotal {
			return nil, fault.New(fault.Rejected, "read kernel modules", "", fmt.Errorf("the modules have more than %d bytes", maxTotal))
		}
	}
	return nil, fault.New(fault.Rejected, "read kernel modules", "", fmt.Errorf("a module needs a chain of more than %d others", maxDepth))
}

// pass walks once and takes the wanted modules.
func (t *Tree) pass(ctx context.Context, walk Walk, wanted map[string]bool) (found []Module, err error) {
	err = walk(func(h *tar.Header, content io.Reader) error {
		if err := ctx.Err(); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		if path.Base(h.Name) == "modules.builtin" {
			return t.readBuiltin(content)
		}
		name, packing, ok := split(h.Name)
		if !ok || !wanted[name] {
			return nil
		}
		m, err := read(name, packing, content)
		if err != nil {
			return fault.New(fault.Rejected, "", "", fmt.Errorf("%s: %w", h.Name, err))
		}
		delete(wanted, name) // the first of a name wins
		t.modules[name] = m
		found = append(found, m)
		return nil
	})
	return found, err
}

// readBuiltin reads the list of what the kernel itself contains.
func (t *Tree) readBuiltin(r io.Reader) error {
	text, err := readAll(r)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if name, _, ok := split(strings.TrimSpace(line)); ok {
			t.builtin[name] = true
		}
	}
	return nil
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
			return fault.New(fault.Rejected, "order kernel modules", name, errors.New("it needs itself"))
		}
		state[name] = 1
		for _, n := range m.wishes {
			// Wishes may name an algorithm in place of a module, and may go round in circles.
			if t.Has(n) && state[n] == 0 {
				if err := visit(n, name); err != nil {
					return err
				}
			}
		}
		for _, n := range m.needs {
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

// canonical is a module's name as the kernel writes it.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// split takes a module's file name apart: virtio-rng.ko.gz is the module
// virtio_rng, packed as ".gz".
func split(file string) (name, packing string, ok bool) {
	stem, packing, ok := strings.Cut(path.Base(file), ".ko")
	if !ok || stem == "" {
		return "", "", false
	}
	switch packing {
	case "", ".gz", ".xz", ".zst":
		return canonical(stem), packing, true
	}
	return "", "", false
}
