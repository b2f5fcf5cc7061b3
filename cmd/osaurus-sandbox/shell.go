package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/notify"
)

// keysSize bounds one read from the terminal. A large paste takes several.
const keysSize = 4 << 10

func newShell() *cobra.Command {
	session := string(config.SessionDefault)
	return plainCommand("shell AGENT", func(ctx context.Context, c *call) error {
		id, err := config.ParseSessionID(session)
		if err != nil {
			return err
		}
		own, isFile := c.in.(*os.File)
		if !isFile || terminalWidth(own) == 0 {
			return fault.Newf(fault.InvalidArgs, "attach to session", session, "standard input is not a terminal").
				Advise("Run one command with: osaurus-sandbox exec " + c.args[0] + " --session " + session + " -- COMMAND.")
		}
		if err := c.connect(ctx); err != nil {
			return err
		}
		writef(c.err, "Session %s of %s. %s twice leaves it running.\n", session, c.args[0], detachKeyName)
		return attach(ctx, c, own, control.RunAs{Agent: c.args[0], Session: id})
	},
		runsCommand,
		withFlag(&session, "session", "which shell of the agent"))
}

// attach connects this terminal to a shell until that exits or the person detaches.
func attach(ctx context.Context, c *call, own *os.File, shell control.RunAs) error {
	attached, detach := context.WithCancel(ctx)
	defer detach()
	left := make(chan struct{}) // closed when the person has detached
	o, err := execTerminal(ctx, c.console, engine.Command{}, showingStart(c, func(ctx context.Context, command engine.Command) (process, error) {
		ctx, end := context.WithCancel(ctx)
		context.AfterFunc(attached, end)
		keys, typed := io.Pipe()
		command.Stdin = keys
		p, err := c.Run(ctx, shell, command)
		if err != nil {
			return nil, err
		}
		go func() {
			<-p.Done()
			_ = keys.Close()
		}()
		go func() {
			if carryKeys(keysOf(own, p.Done()), typed) == nil {
				close(left)
				detach()
			}
		}()
		return p, nil
	}))
	if notify.Closed(left) {
		writef(c.err, "\nThe shell is left running.\n")
		return nil
	}
	if o.Cause != "" {
		writef(c.err, "\nThe shell has ended: %s.\n", o.Cause)
	}
	if l, ok := errors.AsType[lost](err); ok {
		err = l.error // the shell itself goes on
	}
	return err
}

// keysOf reads a terminal until it ends or over is closed. The pending read swallows what is typed
// next.
func keysOf(own *os.File, over <-chan struct{}) <-chan []byte {
	typed := make(chan []byte)
	go func() {
		defer close(typed)
		for {
			keys := make([]byte, keysSize)
			n, err := own.Read(keys)
			if n > 0 {
				select {
				case typed <- keys[:n]:
				case <-over:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return typed
}

const (
	// detachKey, pressed twice, detaches from the shell. Pressed once it goes to the program,
	// since some use it: in vim it jumps to a tag.
	detachKey     = 0x1d // Ctrl-]
	detachKeyName = "Ctrl-]"
	// detachWait is how long the first detachKey is held back for the second.
	detachWait = 500 * time.Millisecond
)

// carryKeys passes on what is typed until the detach key is pressed twice or the input ends.
func carryKeys(typed <-chan []byte, to io.Writer) error {
	var late <-chan time.Time // a detach key is held back until then
	for {
		var keys []byte
		select {
		case b, more := <-typed:
			if !more {
				return nil
			}
			keys = b
			if late != nil {
				keys = append([]byte{detachKey}, keys...)
			}
			if at := bytes.Index(keys, []byte{detachKey, detachKey}); at >= 0 {
				_, err := to.Write(keys[:at])
				return err
			}
			if late = nil; keys[len(keys)-1] == detachKey {
				keys, late = keys[:len(keys)-1], time.After(detachWait)
			}
		case <-late:
			keys, late = []byte{detachKey}, nil
		}
		if len(keys) == 0 {
			continue
		}
		if _, err := to.Write(keys); err != nil {
			return err
		}
	}
}

const (
	// resetScreen undoes what a program may have enabled: attributes, keypad, arrow keys, mouse,
	// focus, paste mode, a hidden cursor.
	resetScreen = "\x1b[0m\x1b>\x1b[?1l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?25h"
	// enterOther and leaveOther switch between the terminal's two screens. Leaving moves the
	// cursor, so it is sent only after an enter.
	enterOther, leaveOther = "\x1b[?1049h", "\x1b[?1049l"
)

// screen writes to a terminal and tracks which screen is shown.
type screen struct {
	io.Writer
	end   []byte // the last bytes written, since a sequence may be split
	other bool
}

func (s *screen) Write(p []byte) (int, error) {
	s.end = append(s.end, p...)
	if enter, leave := bytes.LastIndex(s.end, []byte(enterOther)), bytes.LastIndex(s.end, []byte(leaveOther)); enter != leave {
		s.other = enter > leave
	}
	s.end = s.end[max(0, len(s.end)-len(enterOther)+1):]
	return s.Writer.Write(p)
}

// restore undoes what programs enabled and left on.
func (s *screen) restore() error {
	text := resetScreen
	if s.other {
		text += leaveOther
	}
	s.other = false
	_, err := io.WriteString(s.Writer, text)
	return err
}
