package config

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Lock acquires the home's lock of this name and waits for it without limit, so it must
// be held only briefly: to read, change and write a file. The end of the process unlocks
// it.
func (h Home) Lock(name string) (unlock func(), err error) {
	dir, err := h.Make(h.Locks())
	if err != nil {
		return nil, err
	}
	op := "lock " + name
	lock, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, privateFile)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, dir, err).Advise("Check that the folder is writable and that its disk has space.")
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		lock.Close()
		return nil, fault.New(fault.Execution, op, lock.Name(), err)
	}
	return func() { lock.Close() }, nil
}
