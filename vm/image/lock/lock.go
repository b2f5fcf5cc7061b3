// Package lock lets one of several programs do a piece of work while the others wait for it.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

const (
	// poll is how often a waiter looks. flock itself could wait, but not be
	// interrupted.
	poll = 100 * time.Millisecond
	// maxOwner bounds what is read of an owner's line.
	maxOwner = 256
)

// Lock is held until Release, or until its process ends in whatever way.
type Lock struct{ file *os.File }

// Acquire takes the lock of a file, which it makes and never removes, and
// waits while another process or goroutine has it, until the context ends.
// When it has to wait, it calls waiting once with who has the lock.
func Acquire(ctx context.Context, path string, waiting func(owner string)) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "lock", path, err).Advise("Make it and its folder writable for you.")
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "lock", path, err).Advise("Make it and its folder writable for you.")
	}
	l := &Lock{file}
	if err := l.wait(ctx, waiting); err != nil {
		file.Close()
		return nil, err
	}
	l.sign()
	return l, nil
}

func (l *Lock) wait(ctx context.Context, waiting func(owner string)) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fault.New(fault.Unavailable, "lock", l.file.Name(), err).Advise("Its disk cannot lock files: use a folder on one that can.")
		}
		if waiting != nil {
			waiting(l.owner())
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return fault.Newf(fault.KindOf(ctx.Err()), "wait for lock", l.file.Name(), "%w while %s has it", ctx.Err(), l.owner()).Advise("Wait until that is done, or end it, and try again.")
		case <-ticker.C:
		}
	}
}

// Release gives the lock up.
func (l *Lock) Release() {
	l.file.Truncate(0)
	l.file.Close()
}

// sign writes who has the lock, for people: nothing is decided by it.
func (l *Lock) sign() {
	l.file.Truncate(0)
	l.file.WriteAt(fmt.Appendf(nil, "%s, process %d\n", filepath.Base(os.Args[0]), os.Getpid()), 0)
}

func (l *Lock) owner() string {
	line, _ := io.ReadAll(io.NewSectionReader(l.file, 0, maxOwner))
	if owner := strings.TrimSpace(string(line)); owner != "" {
		return owner
	}
	return "another process"
}
