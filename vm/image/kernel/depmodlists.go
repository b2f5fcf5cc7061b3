package kernel

import (
	"archive/tar"
	"io"
	"path"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// lists holds the content of the module lists that depmod and the kernel's build write.
type lists struct {
	needs    map[string][]string // modules.dep: dependencies
	softdeps map[string][]string // modules.softdep: optional dependencies
	builtin  map[string]bool     // modules.builtin: part of the kernel
	found    int                 // how many modules.dep and modules.builtin were read
}

func newLists() lists {
	return lists{needs: map[string][]string{}, softdeps: map[string][]string{}, builtin: map[string]bool{}}
}

// read parses an entry of the archive if it is one of the lists.
func (l *lists) read(h *tar.Header, content io.Reader) error {
	lines := map[string]func(string){
		"modules.dep": l.readDep, "modules.softdep": l.readSoftdep, "modules.builtin": l.readBuiltin,
	}
	name := path.Base(h.Name)
	take, ok := lines[name]
	if !ok || h.Typeflag != tar.TypeReg {
		return nil
	}
	if name != "modules.softdep" {
		l.found++
	}
	text, err := readAll(content, maxModule)
	if err != nil {
		return fault.New(fault.Rejected, "read", h.Name, err)
	}
	for line := range strings.Lines(string(text)) {
		take(line)
	}
	return nil
}

// readDep reads "kernel/fs/fuse/virtiofs.ko: kernel/fs/fuse/fuse.ko".
func (l *lists) readDep(line string) {
	file, needs, _ := strings.Cut(line, ":")
	name, _, ok := ModuleName(file)
	if !ok {
		return
	}
	for _, need := range strings.Fields(needs) {
		if n, _, ok := ModuleName(need); ok {
			l.needs[name] = append(l.needs[name], n)
		}
	}
}

// readSoftdep reads "softdep NAME pre: A B post: C". It ignores post dependencies.
func (l *lists) readSoftdep(line string) {
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "softdep" {
		return
	}
	name, before := canonical(words[1]), true
	for _, word := range words[2:] {
		switch {
		case word == "pre:" || word == "post:":
			before = word == "pre:"
		case before:
			l.softdeps[name] = append(l.softdeps[name], canonical(word))
		}
	}
}

// readBuiltin reads "kernel/fs/ext4/ext4.ko".
func (l *lists) readBuiltin(line string) {
	if name, _, ok := ModuleName(strings.TrimSpace(line)); ok {
		l.builtin[name] = true
	}
}

// closure returns the names with all their dependencies.
func (l *lists) closure(names []string) map[string]bool {
	all := map[string]bool{}
	for left := names; len(left) > 0; left = left[1:] {
		if n := canonical(left[0]); !all[n] {
			all[n] = true
			left = append(append(left, l.needs[n]...), l.softdeps[n]...)
		}
	}
	return all
}

// canonical returns a module's name as the kernel writes it.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// ModuleName splits the name of a module's file: virtio-rng.ko.gz is the module
// virtio_rng with packing ".gz". It reports false for other files.
func ModuleName(file string) (name, packing string, ok bool) {
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
