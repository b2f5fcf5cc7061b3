package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// lockPoll is how often a waiter tries again. A blocking flock cannot be interrupted.
const lockPoll = 20 * time.Millisecond

// Lock acquires the home's lock of this name and waits for it without limit, so it must
// be held only briefly: to read, change and write a file.
func (h Home) Lock(name string) (unlock func(), err error) {
	dir, err := h.Make(h.Locks())
	if err != nil {
		return nil, err
	}
	return Lock(context.Background(), filepath.Join(dir, name), nil)
}

// Lock locks a file until it is unlocked or the process ends. It creates the file if needed
// and never removes it. While another process or goroutine holds the lock, it calls waiting
// once, unless that is nil, and waits until the context ends.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	var file *os.File
	if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "lock", path, err).Advise("Make the file and its folder writable for you.")
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { file.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, fault.New(fault.Unavailable, "lock", path, err).Advise("Use a folder on a file system that supports file locks.")
		case waiting != nil:
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, fault.Newf(fault.KindOf(ctx.Err()), "lock", path, "another program has it: %w", ctx.Err()).
				Advise("Wait until it finishes, or end it, and try again.")
		case <-time.After(lockPoll):
		}
	}
}
