package kernel

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ModuleIndex collects the dependencies of kernel modules and writes the lists
// that depmod would. The zero value is empty.
type ModuleIndex struct {
	softdep []string // lines
	needs   []need
	paths   map[string]string // by module name
}

// need is what a module at path depends on, by name.
type need struct {
	path  string
	names []string
}

// Add reads a file of lib/modules/RELEASE, whose path is relative to that, and
// ignores it if it is not a module.
func (x *ModuleIndex) Add(path string, r io.Reader) error {
	name, packing, ok := ModuleName(path)
	if !ok {
		return nil
	}
	info, err := readModinfo(packing, r)
	if err != nil {
		return fmt.Errorf("module %s: %w", path, err)
	}
	n := need{path: path}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		key, value, _ := strings.Cut(entry, "=")
		switch {
		case key == "depends" && value != "":
			n.names = append(n.names, strings.Split(canonical(value), ",")...)
		case key == "softdep":
			x.softdep = append(x.softdep, fmt.Sprintf("softdep %s %s\n", name, value))
		}
	}
	if x.paths == nil {
		x.paths = map[string]string{}
	}
	x.paths[name] = path
	x.needs = append(x.needs, n)
	return nil
}

// Dep returns the text of modules.dep with the direct dependencies of each module.
func (x *ModuleIndex) Dep() ([]byte, error) {
	var lines []string
	for _, n := range x.needs {
		line := n.path + ":"
		for _, name := range n.names {
			path, ok := x.paths[name]
			if !ok {
				return nil, fmt.Errorf("module %s needs %s, which is missing", n.path, name)
			}
			line += " " + path
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines) // independent of the order of Add
	return []byte(strings.Join(lines, "")), nil
}

// Softdep returns the text of modules.softdep: optional dependencies.
func (x *ModuleIndex) Softdep() []byte {
	return []byte(strings.Join(slices.Sorted(slices.Values(x.softdep)), ""))
}

func readModinfo(packing string, r io.Reader) ([]byte, error) {
	text, err := unpackModule(packing, r)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo section")
	}
	return section.Data()
}
