// Package homelock makes sure that one program at a time uses a home, and names that program.
package homelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	lockName = "sandbox"
	// maxSize bounds the bytes read of the lock file.
	maxSize = 4096
	// patience is how long Take waits for a lock: the descriptors of an owner that
	// has just ended may take a moment to close.
	patience = time.Second
	poll     = 50 * time.Millisecond
)

// Owner is a program that has, or had, a home. Only the lock proves that it still
// runs: another process may have its PID.
type Owner struct {
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Since   time.Time `json:"since"`
}

func (o Owner) String() string {
	return fmt.Sprintf("%s, process %d, since %s", o.Program, o.PID, o.Since.Local().Format("2006-01-02 15:04:05"))
}

// Lock is the lock of a home. It is held until Release or the end of the process.
type Lock struct {
	file   *os.File
	before Owner
}

// Take locks a home. It fails with Rejected if another program has it, and names that
// program. ctx bounds the wait only.
func Take(ctx context.Context, home config.Home) (*Lock, error) {
	const op = "lock home"
	dir, err := home.Make(home.Locks())
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, string(home), err).Advise("Make the folder writable for you, or set " + config.HomeVariable + " to another.")
	}
	if err := wait(ctx, file, home); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l := &Lock{file: file}
	l.before, _ = read(file)
	if err := write(file, Owner{PID: os.Getpid(), Program: filepath.Base(os.Args[0]), Since: time.Now()}); err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, op, string(home), err).Advise("Check that its disk has room."), file.Close())
	}
	return l, nil
}

// wait locks the file of a home.
func wait(ctx context.Context, file *os.File, home config.Home) error {
	const op = "lock home"
	for deadline := time.Now().Add(patience); ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fault.New(fault.Unavailable, op, string(home), err).Advise("Set " + config.HomeVariable + " to a folder on a disk that can lock files.")
		case time.Now().After(deadline):
			if has, ok := read(file); ok {
				return fault.Newf(fault.Rejected, op, string(home), "it is in use by %s", has).
					Advise("Use the sandbox through that program, end it, or set " + config.HomeVariable + " to a home of its own.")
			}
			return fault.Newf(fault.Rejected, op, string(home), "it is in use by an unknown program").Advise("See which one with: fuser " + file.Name())
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return fault.Wrap(op, string(home), ctx.Err())
		}
	}
}

// Before returns the last owner if it ended without Release: it was killed, or the
// computer crashed.
func (l *Lock) Before() (Owner, bool) { return l.before, l.before.PID != 0 }

// Lost reports whether the home was deleted or moved, or its lock file replaced. The
// lock then protects nothing.
func (l *Lock) Lost() bool {
	here, err := os.Stat(l.file.Name())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	held, err := l.file.Stat()
	return err == nil && !os.SameFile(here, held)
}

// Release unlocks the home.
func (l *Lock) Release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Holder returns the program that has a home, if one has it and its name is known.
func Holder(home config.Home) (Owner, bool) {
	file, err := os.Open(filepath.Join(home.Locks(), lockName))
	if err != nil {
		return Owner{}, false
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return Owner{}, false // nobody has it
	}
	return read(file)
}

func read(file *os.File) (o Owner, ok bool) {
	err := json.NewDecoder(io.NewSectionReader(file, 0, maxSize)).Decode(&o)
	return o, err == nil && o.PID > 0
}

// write writes in place, so that it fits on a full disk.
func write(file *os.File, o Owner) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if _, err := file.WriteAt(text, 0); err != nil {
		return err
	}
	return errors.Join(file.Truncate(int64(len(text))), file.Sync())
}
