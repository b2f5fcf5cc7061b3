//go:build linux

package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/guest/protocol"
)

// screen records the transcript of a session as text. It interprets line editing, and drops the
// output of full-screen programs and all other control sequences.
type screen struct {
	log     []byte // complete lines
	line    []rune
	at      int // the cursor in line
	version uint64

	tty  ink    // state of the terminal's output
	tool ink    // state of the calls' output
	told []byte // the end of the calls' output, not parsed yet
}

const (
	// maxLine bounds the current line; longer ones are broken.
	maxLine = 4096
	// maxGap bounds how far the cursor may move beyond the line's end, so that a short sequence
	// cannot add many spaces.
	maxGap = 512
)

// show records the terminal's output.
func (s *screen) show(b []byte) {
	s.catchUp()
	s.version++
	s.tty.write(s, b)
}

// tell records a command's output, which must not change the terminal's state. It keeps only the
// end of a flood.
func (s *screen) tell(b []byte) {
	const most = protocol.TranscriptChars * utf8.UTFMax
	s.version++
	s.told = append(s.told, b[max(0, len(b)-most):]...)
	if len(s.told) > 2*most {
		s.told = append(s.told[:0], s.told[len(s.told)-most:]...)
	}
}

// catchUp parses the output recorded by tell.
func (s *screen) catchUp() {
	if len(s.told) > 0 {
		s.tool.write(s, s.told)
		s.tool.full, s.told = false, s.told[:0]
	}
}

// fresh reports whether the current line is empty.
func (s *screen) fresh() bool {
	s.catchUp()
	return len(s.line) == 0
}

// text returns the transcript.
func (s *screen) text() string {
	s.catchUp()
	return protocol.LastChars(string(s.log)+string(s.line), protocol.TranscriptChars)
}

// full reports whether a full-screen program is running.
func (s *screen) full() bool { return s.tty.full }

func (s *screen) newline() {
	s.log = append(append(s.log, string(s.line)...), '\n')
	s.line, s.at = s.line[:0], 0
	// Keep up to twice the needed text to cut it seldom.
	if len(s.log) > 2*protocol.TranscriptChars*utf8.UTFMax {
		s.log = []byte(protocol.LastChars(string(s.log), protocol.TranscriptChars))
	}
}

func (s *screen) put(r rune) {
	if len(s.line) >= maxLine {
		s.newline()
	}
	s.move(s.at)
	if s.at < len(s.line) {
		s.line[s.at] = r
	} else {
		s.line = append(s.line, r)
	}
	s.at++
}

// move moves the cursor, padding the line with spaces up to it.
func (s *screen) move(to int) {
	s.at = max(0, min(to, maxLine-1, len(s.line)+maxGap))
	for len(s.line) < s.at {
		s.line = append(s.line, ' ')
	}
}

// ink parses a stream of characters and terminal sequences.
type ink struct {
	state  inkState
	params []byte // of a control sequence
	part   []byte // the beginning of a character
	full   bool   // a full-screen program is running
}

type inkState byte

const (
	letters inkState = iota
	escape           // after ESC
	charset          // after ESC and an intermediate byte: one more follows
	control          // after ESC [
	text             // in a string, which ends with BEL or ESC
)

// maxParams is more than any supported control sequence needs.
const maxParams = 32

func (i *ink) write(s *screen, b []byte) {
	if len(i.part) > 0 {
		b = append(i.part, b...)
		i.part = nil
	}
	for len(b) > 0 {
		if !utf8.FullRune(b) {
			i.part = append([]byte(nil), b...)
			return
		}
		r, size := utf8.DecodeRune(b)
		i.rune(s, r)
		b = b[size:]
	}
}

func (i *ink) rune(s *screen, r rune) {
	switch i.state {
	case letters:
		i.character(s, r)
	case escape:
		i.begin(r)
	case charset:
		i.state = letters
	case control:
		switch {
		case r == 0x1b:
			i.state = escape
		case r >= 0x40 && r <= 0x7e:
			i.state = letters
			i.obey(s, r)
		case r >= 0x20 && r < 0x40 && len(i.params) < maxParams:
			i.params = append(i.params, byte(r))
		}
	case text:
		switch r {
		case 0x07:
			i.state = letters
		case 0x1b:
			i.state = escape // \ and what is no sequence are its end, and others begin
		}
	}
}

func (i *ink) begin(r rune) {
	switch {
	case r == '[':
		i.state, i.params = control, i.params[:0]
	case r == 'c': // reset
		*i = ink{}
	case strings.ContainsRune("]PX^_", r):
		i.state = text
	case r >= 0x20 && r < 0x30:
		i.state = charset
	default:
		i.state = letters
	}
}

// character handles a character outside of sequences.
func (i *ink) character(s *screen, r rune) {
	switch {
	case r == 0x1b:
		i.state = escape
	case i.full, r == utf8.RuneError:
	case r == '\n':
		s.newline()
	case r == '\r':
		s.at = 0
	case r == '\b':
		s.move(s.at - 1)
	case r >= ' ' && (r < 0x7f || r >= 0xa0), r == '\t':
		s.put(r)
	}
}

// obey applies a control sequence to the line.
func (i *ink) obey(s *screen, final rune) {
	p := string(i.params)
	if final == 'h' || final == 'l' {
		switch p {
		case "?1049", "?1047", "?47":
			i.full = final == 'h'
		}
		return
	}
	n, err := strconv.Atoi(p)
	if (err != nil && p != "") || n < 0 || n > maxLine || i.full {
		return
	}
	switch final {
	case 'C': // right
		s.move(s.at + max(1, n))
	case 'D': // left
		s.move(s.at - max(1, n))
	case 'G': // to a column
		s.move(max(1, n) - 1)
	case 'K': // erase
		switch n {
		case 0:
			s.line = s.line[:min(s.at, len(s.line))]
		case 2:
			s.line = s.line[:0]
			s.move(s.at)
		}
	case 'P': // delete characters
		if s.at < len(s.line) {
			s.line = append(s.line[:s.at], s.line[min(len(s.line), s.at+max(1, n)):]...)
		}
	case '@': // make room for characters
		if n = max(1, n); s.at < len(s.line) && len(s.line)+n <= maxLine {
			s.line = append(s.line, make([]rune, n)...)
			copy(s.line[s.at+n:], s.line[s.at:])
			for i := range n {
				s.line[s.at+i] = ' '
			}
		}
	}
}
