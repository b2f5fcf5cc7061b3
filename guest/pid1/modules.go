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

// modules is the image's folder of kernel modules, with lists of their names in loading order. It
// is kept open because its path is gone once the root changes. It is nil if the kernel needs no
// modules.
type modules struct{ *os.Root }

const (
	moduleDir = "/modules"
	order     = "order" // needed to boot
	late      = "late"  // loaded in the background
)

func openModules() (modules, error) {
	root, err := os.OpenRoot(moduleDir)
	if errors.Is(err, fs.ErrNotExist) {
		return modules{}, nil
	}
	return modules{root}, err
}

// load loads the modules of a list. It only warns about a module that does not load: some are
// optional, and users of the others report their own errors.
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

// drop removes the module files to free their memory.
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
