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
	// maxSize bounds what is read of an owner's file.
	maxSize = 4096
	// patience is how long Take waits for a lock whose owner, by all that can
	// be seen, has just ended: its last descriptors may take a moment to close.
	patience = 2 * time.Second
	poll     = 50 * time.Millisecond
)

// Owner is a program that has, or had, a home. PID alone would prove nothing,
// since pids are used again: together with the time at which the process
// started, and the boot of the computer that both belong to, it does.
type Owner struct {
	PID     int       `json:"pid"`
	Started uint64    `json:"started"` // in the system's own unit
	Boot    string    `json:"boot"`
	Program string    `json:"program"`
	Since   time.Time `json:"since"`
}

// Self is this process.
func Self() (Owner, error) {
	boot, err := bootID()
	if err != nil {
		return Owner{}, err
	}
	started, err := startTime(os.Getpid())
	return Owner{PID: os.Getpid(), Started: started, Boot: boot, Program: filepath.Base(os.Args[0]), Since: time.Now()}, err
}

// Lives reports whether the owner is still running: a process of its pid that
// started in another moment, or in another boot, is somebody else.
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

// Lock is a home that was taken. It is held until Release or until the process
// ends, in whatever way.
type Lock struct {
	file   *os.File
	before Owner
}

// Take takes a home. If another program has it, that is a fault.Rejected that
// names the program. Nothing is ever done to that program. The context ends a
// wait, and nothing else.
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

// Before is the program that had the home last and did not give it back: it
// was killed, or the computer went down.
func (l *Lock) Before() (Owner, bool) { return l.before, l.before.PID != 0 }

// Lost reports whether the home was deleted or moved, or its lock file replaced: the
// lock protects nothing then.
func (l *Lock) Lost() bool {
	here, err := os.Stat(l.file.Name())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	held, err := l.file.Stat()
	return err == nil && !os.SameFile(here, held)
}

// Release gives the home back.
func (l *Lock) Release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Holder is the program that has a home, as far as it says so.
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
	if _, err := l.file.WriteAt(text, 0); err != nil { // over what is there: a full disk takes nothing away
		return err
	}
	return errors.Join(l.file.Truncate(int64(len(text))), l.file.Sync())
}
