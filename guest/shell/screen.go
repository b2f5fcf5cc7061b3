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

	tty  parser // of the terminal's output
	tool parser // of the calls' output
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
	s.version++
	s.tty.write(s, b)
}

// tell records a command's output, which does not change the terminal's state.
func (s *screen) tell(b []byte) {
	s.version++
	s.tool.write(s, b)
	s.tool.full = false
}

// fresh reports whether the current line is empty.
func (s *screen) fresh() bool { return len(s.line) == 0 }

// text returns the transcript.
func (s *screen) text() string {
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

// parser parses a stream of characters and terminal sequences.
type parser struct {
	state  parserState
	params []byte // of a control sequence
	part   []byte // the beginning of a character
	full   bool   // a full-screen program is running
}

type parserState byte

const (
	letters parserState = iota
	escape              // after ESC
	charset             // after ESC and an intermediate byte: one more follows
	control             // after ESC [
	text                // in a string, which ends with BEL or ESC
)

// maxParams is more than any supported control sequence needs.
const maxParams = 32

func (p *parser) write(s *screen, b []byte) {
	if len(p.part) > 0 {
		b = append(p.part, b...)
		p.part = nil
	}
	for len(b) > 0 {
		if !utf8.FullRune(b) {
			p.part = append([]byte(nil), b...)
			return
		}
		r, size := utf8.DecodeRune(b)
		p.rune(s, r)
		b = b[size:]
	}
}

func (p *parser) rune(s *screen, r rune) {
	switch p.state {
	case letters:
		p.character(s, r)
	case escape:
		p.begin(r)
	case charset:
		p.state = letters
	case control:
		switch {
		case r == 0x1b:
			p.state = escape
		case r >= 0x40 && r <= 0x7e:
			p.state = letters
			p.obey(s, r)
		case r >= 0x20 && r < 0x40 && len(p.params) < maxParams:
			p.params = append(p.params, byte(r))
		}
	case text:
		switch r {
		case 0x07:
			p.state = letters
		case 0x1b:
			p.state = escape // \ and what is no sequence are its end, and others begin
		}
	}
}

func (p *parser) begin(r rune) {
	switch {
	case r == '[':
		p.state, p.params = control, p.params[:0]
	case r == 'c': // reset
		*p = parser{}
	case strings.ContainsRune("]PX^_", r):
		p.state = text
	case r >= 0x20 && r < 0x30:
		p.state = charset
	default:
		p.state = letters
	}
}

// character handles a character outside of sequences.
func (p *parser) character(s *screen, r rune) {
	switch {
	case r == 0x1b:
		p.state = escape
	case p.full, r == utf8.RuneError:
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
func (p *parser) obey(s *screen, final rune) {
	params := string(p.params)
	if final == 'h' || final == 'l' {
		switch params {
		case "?1049", "?1047", "?47":
			p.full = final == 'h'
		}
		return
	}
	n, err := strconv.Atoi(params)
	if (err != nil && params != "") || n < 0 || n > maxLine || p.full {
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
			for k := range n {
				s.line[s.at+k] = ' '
			}
		}
	}
}
