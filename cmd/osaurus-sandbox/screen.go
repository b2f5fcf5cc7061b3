package main

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// screenModes are the modes of a terminal that programs switch on for
// themselves, and what undoes each. A person who leaves such a program running
// gets their own terminal back without them.
var screenModes = map[int]string{
	1:    "\x1b[?1l",    // arrow keys for programs
	1000: "\x1b[?1000l", // the mouse
	1002: "\x1b[?1002l",
	1003: "\x1b[?1003l",
	1004: "\x1b[?1004l", // focus
	1005: "\x1b[?1005l",
	1006: "\x1b[?1006l",
	1015: "\x1b[?1015l",
	47:   "\x1b[?47l", // the other screen
	1047: "\x1b[?1047l",
	1049: "\x1b[?1049l",
	2004: "\x1b[?2004l", // brackets around what is pasted
	25:   "\x1b[?25h",   // the cursor: it is switched off
}

const (
	// attributes off, keypad for numbers: these two are not kept track of.
	plainScreen = "\x1b[0m\x1b>"
	// maxMode is longer than any sequence that switches modes.
	maxMode = 64
)

// screen writes to a terminal and keeps track of the modes that are switched on.
type screen struct {
	io.Writer
	sequence []byte // of a mode, as far as it has come
	on       map[int]bool
}

func newScreen(w io.Writer) *screen { return &screen{Writer: w, on: map[int]bool{}} }

func (s *screen) Write(p []byte) (int, error) {
	for _, b := range p {
		s.read(b)
	}
	return s.Writer.Write(p)
}

// read looks for "ESC [ ? number ; number … h", and l in place of h.
func (s *screen) read(b byte) {
	const begin = "\x1b[?"
	switch n := len(s.sequence); {
	case b == begin[0]:
		s.sequence = append(s.sequence[:0], b)
	case n == 0:
	case n < len(begin) && b == begin[n], n >= len(begin) && n < maxMode && (b >= '0' && b <= '9' || b == ';'):
		s.sequence = append(s.sequence, b)
	default:
		if n > len(begin) && (b == 'h' || b == 'l') {
			for _, text := range strings.Split(string(s.sequence[len(begin):]), ";") {
				s.set(text, b == 'h')
			}
		}
		s.sequence = s.sequence[:0]
	}
}

func (s *screen) set(text string, on bool) {
	mode, err := strconv.Atoi(text)
	if _, known := screenModes[mode]; err != nil || !known {
		return
	}
	const cursor = 25 // on is its usual state
	if on == (mode == cursor) {
		delete(s.on, mode)
	} else {
		s.on[mode] = true
	}
}

// restore undoes what programs have switched on and not off.
func (s *screen) restore() error {
	text := plainScreen
	for _, mode := range slices.Sorted(maps.Keys(s.on)) {
		text += screenModes[mode]
	}
	clear(s.on)
	_, err := io.WriteString(s.Writer, text)
	return err
}
