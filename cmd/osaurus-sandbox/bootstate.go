package main

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/pack"
)

// bootState is the folder of one running boot. It holds a lock on the folder,
// so that others can tell it from one whose owner was killed.
type bootState struct{ folder *os.File }

// newBootState makes a folder, and removes those that killed ones left.
func newBootState(ctx context.Context, home config.Home) (*bootState, error) {
	const op = "make folder"
	run, err := home.Make(home.Run())
	if err != nil {
		return nil, err
	}
	// A folder is without its own lock for a moment after it was made.
	held, err := pack.AcquireLock(ctx, filepath.Join(home.Locks(), "boot"), nil)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	old, err := filepath.Glob(filepath.Join(run, "boot-*"))
	if err != nil {
		return nil, fault.New(fault.Execution, op, run, err)
	}
	for _, dir := range old {
		if s, err := lockFolder(dir); err == nil {
			s.close()
		}
	}
	dir, err := os.MkdirTemp(run, "boot-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, run, err).Advise("Make the folder writable for you and see that its disk has room, or set " + config.HomeVariable + " to another home.")
	}
	s, err := lockFolder(dir)
	if err != nil {
		return nil, fault.New(fault.Execution, op, dir, err)
	}
	return s, nil
}

func lockFolder(dir string) (*bootState, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		folder.Close()
		return nil, err
	}
	return &bootState{folder}, nil
}

func (s *bootState) dir() string { return s.folder.Name() }

// close removes the folder.
func (s *bootState) close() {
	_ = os.RemoveAll(s.dir()) // what stays, the next boot removes
	s.folder.Close()
}
