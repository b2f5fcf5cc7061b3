package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// execTerminal runs a command on a terminal of the same size as this program's, and passes all
// keys to it.
func execTerminal(ctx context.Context, c console, command engine.Command, run starter) (outcome, error) {
	own, _ := c.in.(*os.File)
	isTerminal := terminalWidth(c.in) > 0
	command.Terminal = &engine.Terminal{Size: terminalSize(own), Term: os.Getenv("TERM")}
	view, shown := &screen{Writer: c.out}, terminalWidth(c.out) > 0
	c.out = view
	var undo []func() error // restores the terminals
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	o, err := runCommand(ctx, c, command, func(ctx context.Context, command engine.Command) (process, error) {
		p, err := run(ctx, command)
		if err == nil && shown {
			undo = append(undo, view.restore)
		}
		if err != nil || !isTerminal {
			return p, err
		}
		restore, err := makeRaw(own)
		if err != nil {
			return nil, err // the context's end also ends the command
		}
		undo = append(undo, restore)
		go follow(own, resized, p)
		return p, nil
	})
	var failed error
	for _, restore := range undo {
		failed = errors.Join(failed, restore())
	}
	if err == nil && failed != nil {
		err = fault.New(fault.Execution, "restore terminal", own.Name(), failed).Advise("Run: reset.")
	}
	return o, err
}

// follow resizes the terminal of a command with this program's.
func follow(own *os.File, resized <-chan os.Signal, p process) {
	for {
		if p.Resize(terminalSize(own)) != nil {
			return // the command has ended
		}
		select {
		case <-resized:
		case <-p.Done():
			return
		}
	}
}

// terminalSize returns the size of a terminal, or the usual one if f is none.
func terminalSize(f *os.File) engine.TerminalSize {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 || size.Col == 0 {
		return engine.TerminalSize{Rows: 24, Cols: 80}
	}
	return engine.TerminalSize{Rows: size.Row, Cols: size.Col}
}

// makeRaw switches a terminal to raw mode without echo. restore undoes that.
func makeRaw(f *os.File) (restore func() error, err error) {
	return changeTerminal(f, setTermios, func(raw *unix.Termios) {
		raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		raw.Oflag &^= unix.OPOST
		raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	})
}

// hideTyping turns a terminal's echo off. restore undoes that, and discards unread input, such as
// further lines of a pasted secret.
func hideTyping(f *os.File) (restore func() error, err error) {
	return changeTerminal(f, flushTermios, func(hidden *unix.Termios) {
		hidden.Iflag |= unix.ICRNL
		hidden.Lflag = hidden.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	})
}

func changeTerminal(f *os.File, restoreBy uint, change func(*unix.Termios)) (restore func() error, err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err != nil {
		return nil, fault.New(fault.Execution, "set up terminal", f.Name(), err)
	}
	after := *before
	change(&after)
	if err := unix.IoctlSetTermios(int(f.Fd()), setTermios, &after); err != nil {
		return nil, fault.New(fault.Execution, "set up terminal", f.Name(), err)
	}
	return func() error { return unix.IoctlSetTermios(int(f.Fd()), restoreBy, before) }, nil
}
