package main

import (
	"bytes"
	"io"
)

const (
	// resetScreen undoes what a program may have switched on before its terminal was left:
	// attributes, keypad, arrow keys, mouse, focus, pasting, a hidden cursor.
	resetScreen = "\x1b[0m\x1b>\x1b[?1l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?25h"
	// enterOther and leaveOther switch between the terminal's two screens. Leaving moves the
	// cursor, so it is done only for a program that has entered.
	enterOther, leaveOther = "\x1b[?1049h", "\x1b[?1049l"
)

// screen writes to a terminal and notices whether its other screen is shown.
type screen struct {
	io.Writer
	end   []byte // of what was written: a sequence may come in two parts
	other bool
}

func newScreen(w io.Writer) *screen { return &screen{Writer: w} }

func (s *screen) Write(p []byte) (int, error) {
	s.end = append(s.end, p...)
	if enter, leave := bytes.LastIndex(s.end, []byte(enterOther)), bytes.LastIndex(s.end, []byte(leaveOther)); enter != leave {
		s.other = enter > leave
	}
	s.end = s.end[max(0, len(s.end)-len(enterOther)+1):]
	return s.Writer.Write(p)
}

// restore undoes what programs have switched on and not off.
func (s *screen) restore() error {
	text := resetScreen
	if s.other {
		text += leaveOther
	}
	s.other = false
	_, err := io.WriteString(s.Writer, text)
	return err
}
