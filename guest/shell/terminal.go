//go:build linux

package shell

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/internal/fault"
)

// terminal is our side of a shell's terminal. What it reports about the other side comes from the
// kernel.
type terminal struct{ file *os.File }

// control calls f with the descriptor.
func (t terminal) control(f func(fd int) error) error { return process.Control(t.file, f) }

// foreground returns the foreground process group, or 0.
func (t terminal) foreground() (pgrp int) {
	_ = t.control(func(fd int) (err error) {
		pgrp, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return pgrp
}

// modes returns the terminal's modes, or nil if it is closed.
func (t terminal) modes() (modes *unix.Termios) {
	_ = t.control(func(fd int) (err error) {
		modes, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return modes
}

func (t terminal) setModes(modes *unix.Termios) {
	if modes != nil {
		_ = t.control(func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, modes) })
	}
}

// interrupt sends SIGINT to the foreground group. The kernel looks up the group, so a reused id is
// no risk.
func (t terminal) interrupt() {
	_ = t.control(func(fd int) error { return unix.IoctlSetInt(fd, tiocsig, int(unix.SIGINT)) })
}

// tiocsig is TIOCSIG of asm-generic/ioctls.h, which both architectures use.
const tiocsig = 0x40045436

// resize sets the size. With again, programs are signalled to repaint even if the size is the
// same.
func (t terminal) resize(size process.Size, again bool) error {
	if again {
		if err := process.Resize(t.file, process.Size{Rows: size.Rows + 1, Cols: size.Cols}); err != nil {
			return err
		}
	}
	return process.Resize(t.file, size)
}

// typeCheck is how often to retry writing to a terminal whose input is full.
const typeCheck = 10 * time.Millisecond

// typeIn writes input. It waits while the terminal's input is full.
func (t terminal) typeIn(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		n := 0
		err := t.control(func(fd int) (err error) {
			n, err = unix.Write(fd, b)
			return err
		})
		switch {
		case err == nil:
			b = b[n:]
			continue
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return fault.New(fault.Unavailable, "type into terminal", "", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(typeCheck):
		}
	}
	return nil
}
