package config

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Lock waits until no other program changes what has this name, and keeps the
// others waiting until unlock is called. It is for moments: a read, a change
// and a write of a file. A program that ends has unlocked.
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
