package modules

import (
	"archive/tar"
	"io"
	"path"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// lists is what depmod and the kernel's build say of its modules, by name.
type lists struct {
	needs   map[string][]string // modules.dep: must be loaded before it
	wishes  map[string][]string // modules.softdep: should be, if they exist
	builtin map[string]bool     // modules.builtin: part of the kernel
	found   int                 // of modules.dep and modules.builtin
}

func newLists() lists {
	return lists{needs: map[string][]string{}, wishes: map[string][]string{}, builtin: map[string]bool{}}
}

// read reads an entry of the tree if it is one of the lists.
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
	text, err := readAll(content)
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
	name, _, ok := FileName(file)
	if !ok {
		return
	}
	for _, need := range strings.Fields(needs) {
		if n, _, ok := FileName(need); ok {
			l.needs[name] = append(l.needs[name], n)
		}
	}
}

// readSoftdep reads "softdep NAME pre: A B post: C": C comes later.
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
			l.wishes[name] = append(l.wishes[name], canonical(word))
		}
	}
}

// readBuiltin reads "kernel/fs/ext4/ext4.ko".
func (l *lists) readBuiltin(line string) {
	if name, _, ok := FileName(strings.TrimSpace(line)); ok {
		l.builtin[name] = true
	}
}

// closure is the names and all that they need and wish for.
func (l *lists) closure(names []string) map[string]bool {
	all := map[string]bool{}
	for left := names; len(left) > 0; left = left[1:] {
		if n := canonical(left[0]); !all[n] {
			all[n] = true
			left = append(append(left, l.needs[n]...), l.wishes[n]...)
		}
	}
	return all
}

// canonical is a module's name as the kernel writes it.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// FileName takes the name of a module's file apart: virtio-rng.ko.gz is the
// module virtio_rng, packed as ".gz".
func FileName(file string) (name, packing string, ok bool) {
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
