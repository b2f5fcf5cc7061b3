//go:build linux

package pid1

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// modules is where the image puts the kernel's modules: files, and lists of
// their names in the order in which to load them. It is held open, since its
// path is gone when the root changes. Nil is an image whose kernel needs none.
type modules struct{ *os.Root }

const (
	moduleDir = "/modules"
	order     = "order" // for the boot
	late      = "late"  // for what nothing waits for
)

func openModules() (modules, error) {
	root, err := os.OpenRoot(moduleDir)
	if errors.Is(err, fs.ErrNotExist) {
		return modules{}, nil
	}
	return modules{root}, err
}

// load loads the modules of a list. One that does not load is left to warn
// about: what needs it will fail by itself, and some (a button) nothing needs.
func (m modules) load(list string, warn func(string, error)) error {
	if m.Root == nil {
		return nil
	}
	names, err := m.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(names)) {
		if err := m.insert(name); err != nil {
			warn("load module", err)
		}
	}
	return nil
}

func (m modules) insert(name string) error {
	f, err := m.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// drop gives the memory of the modules' files back.
func (m modules) drop() error {
	if m.Root == nil {
		return nil
	}
	defer m.Close()
	dir, err := m.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, m.RemoveAll(name))
	}
	return err
}
