package pack

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
	// lockPoll is how often a waiter tries again. A blocking flock cannot be interrupted.
	lockPoll = 100 * time.Millisecond
	// maxLockOwner bounds the owner's line in a lock file.
	maxLockOwner = 256
)

// Lock is a lock file held until Release or the end of the process.
type Lock struct{ file *os.File }

// AcquireLock locks a file, which it creates if needed and never removes. While
// another process or goroutine holds the lock, it calls waiting once with the owner
// and waits until the context ends.
func AcquireLock(ctx context.Context, path string, waiting func(owner string)) (*Lock, error) {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "lock", path, err).Advise("Make the file and its folder writable for you.")
	}
	l := &Lock{file}
	if err := l.wait(ctx, waiting); err != nil {
		file.Close()
		return nil, err
	}
	file.Truncate(0) // the owner's line is only for messages
	file.WriteAt(fmt.Appendf(nil, "%s, process %d\n", filepath.Base(os.Args[0]), os.Getpid()), 0)
	return l, nil
}

func (l *Lock) wait(ctx context.Context, waiting func(owner string)) error {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fault.New(fault.Unavailable, "lock", l.file.Name(), err).Advise("Use a folder on a file system that supports file locks.")
		}
		if waiting != nil {
			waiting(l.owner())
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return fault.Newf(fault.KindOf(ctx.Err()), "lock", l.file.Name(), "%w; held by %s", ctx.Err(), l.owner()).
				Advise("Wait until it finishes, or end it, and try again.")
		case <-ticker.C:
		}
	}
}

// Release unlocks the file.
func (l *Lock) Release() {
	l.file.Truncate(0)
	l.file.Close()
}

func (l *Lock) owner() string {
	line, _ := io.ReadAll(io.NewSectionReader(l.file, 0, maxLockOwner))
	if owner := strings.TrimSpace(string(line)); owner != "" {
		return owner
	}
	return "another process"
}
