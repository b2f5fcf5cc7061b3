// Package depmod works out which kernel modules need which others, for kernels whose packages leave that to the host's depmod.
package depmod

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"osaurus-sandbox/vm/image/modules"
)

// Index is what is known of a kernel's modules. The zero value knows none.
type Index struct {
	modules map[string]module // by name
}

type module struct {
	path     string   // below lib/modules/RELEASE
	needs    []string // names
	softdeps []string // such as "pre: crc32c"
}

// IsModule reports whether a file is a kernel module, by its name.
func IsModule(file string) bool {
	_, _, ok := modules.FileName(file)
	return ok
}

// Add reads a module, whose path is relative to lib/modules/RELEASE.
func (x *Index) Add(file string, r io.Reader) error {
	name, packing, ok := modules.FileName(file)
	if !ok {
		return fmt.Errorf("%s is no module", file)
	}
	info, err := readModinfo(packing, r)
	if err != nil {
		return fmt.Errorf("module %s: %w", file, err)
	}
	m := module{path: file}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		key, value, _ := strings.Cut(entry, "=")
		switch {
		case key == "depends" && value != "":
			for need := range strings.SplitSeq(value, ",") {
				m.needs = append(m.needs, strings.ReplaceAll(need, "-", "_"))
			}
		case key == "softdep":
			m.softdeps = append(m.softdeps, value)
		}
	}
	if x.modules == nil {
		x.modules = map[string]module{}
	}
	x.modules[name] = m
	return nil
}

// Dep returns the text of modules.dep: each module with all that it needs,
// what is to be loaded first coming last.
func (x *Index) Dep() ([]byte, error) {
	var b bytes.Buffer
	for _, name := range x.names() {
		var order []string
		if err := x.visit(name, map[string]bool{}, &order); err != nil {
			return nil, err
		}
		slices.Reverse(order)
		fmt.Fprintf(&b, "%s:", x.modules[name].path)
		for _, need := range order[1:] {
			fmt.Fprintf(&b, " %s", x.modules[need].path)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// visit appends what a module needs and then the module.
func (x *Index) visit(name string, seen map[string]bool, order *[]string) error {
	seen[name] = true
	for _, need := range x.modules[name].needs {
		if _, ok := x.modules[need]; !ok {
			return fmt.Errorf("the module %s needs %s, which is not there", name, need)
		}
		if !seen[need] {
			if err := x.visit(need, seen, order); err != nil {
				return err
			}
		}
	}
	*order = append(*order, name)
	return nil
}

// Softdep returns the text of modules.softdep: what is to be loaded before
// and after a module that works without.
func (x *Index) Softdep() []byte {
	var b bytes.Buffer
	for _, name := range x.names() {
		for _, softdep := range x.modules[name].softdeps {
			fmt.Fprintf(&b, "softdep %s %s\n", name, softdep)
		}
	}
	return b.Bytes()
}

// names lists the modules by their paths, so that the texts do not depend on
// the order in which modules were added.
func (x *Index) names() []string {
	return slices.SortedFunc(maps.Keys(x.modules), func(a, b string) int {
		return strings.Compare(x.modules[a].path, x.modules[b].path)
	})
}

func readModinfo(packing string, r io.Reader) ([]byte, error) {
	text, err := modules.Unpack(packing, r)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("it has no section .modinfo")
	}
	return section.Data()
}
