// Package homelock makes sure that one program at a time uses a home, and names that program.
package homelock

import (
	"bytes"
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
	// patience is how long Take waits for a lock whose owner seems to have ended:
	// its descriptors may take a moment to close.
	patience = 2 * time.Second
	poll     = 50 * time.Millisecond
)

// Owner is a program that has, or had, a home. PIDs are reused, so the start time and the
// boot of the computer identify the process too.
type Owner struct {
	PID     int       `json:"pid"`
	Started uint64    `json:"started"` // in a unit of the operating system
	Boot    string    `json:"boot"`
	Program string    `json:"program"`
	Since   time.Time `json:"since"`
}

// Self returns this process as an owner.
func Self() (Owner, error) {
	boot, err := bootID()
	if err != nil {
		return Owner{}, err
	}
	started, err := startTime(os.Getpid())
	return Owner{PID: os.Getpid(), Started: started, Boot: boot, Program: filepath.Base(os.Args[0]), Since: time.Now()}, err
}

// Lives reports whether the owner is still running.
func (o Owner) Lives() bool {
	boot, err := bootID()
	if err != nil || boot != o.Boot {
		return false
	}
	started, err := startTime(o.PID)
	return err == nil && started == o.Started
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
	const op = "take"
	dir, err := home.Make(home.Locks())
	if err != nil {
		return nil, err
	}
	self, err := Self()
	if err != nil {
		return nil, fault.Newf(fault.Unavailable, op, string(home), "learn which process this is: %w", err).Advise("See that this program may ask the system about its own processes (on Linux: read /proc).")
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, string(home), err).Advise("Make the folder writable for you, or set " + config.HomeVariable + " to another.")
	}
	l := &Lock{file: file}
	if err := l.wait(ctx, home); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l.before, _ = l.read()
	if err := l.write(self); err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, op, string(home), err).Advise("See that its disk has room."), file.Close())
	}
	return l, nil
}

func (l *Lock) wait(ctx context.Context, home config.Home) error {
	const op = "take"
	for deadline := time.Now().Add(patience); ; {
		err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fault.New(fault.Unavailable, op, string(home), err).Advise("Set " + config.HomeVariable + " to a folder on a disk that can lock files.")
		}
		has, known := l.read()
		switch {
		case known && has.Lives():
			return fault.Newf(fault.Rejected, op, string(home), "%s has it", has).
				Advise("Use the sandbox through that program, end it, or set " + config.HomeVariable + " to a home of its own.")
		case time.Now().After(deadline):
			return fault.Newf(fault.Rejected, op, string(home), "a program that does not say its name has it").
				Advise("See which one with: fuser " + l.file.Name())
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

// Holder returns the program that has a home, if it is known.
func Holder(home config.Home) (Owner, bool) {
	file, err := os.Open(filepath.Join(home.Locks(), lockName))
	if err != nil {
		return Owner{}, false
	}
	defer file.Close()
	o, ok := (&Lock{file: file}).read()
	return o, ok && o.Lives()
}

func (l *Lock) read() (o Owner, ok bool) {
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, maxSize))
	if err != nil || json.Unmarshal(bytes.TrimSpace(text), &o) != nil || o.PID <= 0 {
		return Owner{}, false
	}
	return o, true
}

func (l *Lock) write(o Owner) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if _, err := l.file.WriteAt(text, 0); err != nil { // in place, so that a full disk loses nothing
		return err
	}
	return errors.Join(l.file.Truncate(int64(len(text))), l.file.Sync())
}
