//go:build linux

package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/guest/protocol"
)

// screen keeps the transcript of a session: what its terminal showed, as text. It
// understands what line editors do within a line, and leaves out what full-screen
// programs paint and everything else that a terminal would obey.
type screen struct {
	log     []byte // lines that are complete
	line    []rune
	at      int // the cursor's place in line
	version uint64

	tty  ink    // what the terminal shows
	tool ink    // what calls write
	told []byte // the end of that, which is looked at when somebody asks
}

const (
	// maxLine bounds the line that is being written; longer ones are broken.
	maxLine = 4096
	// maxGap is how far beyond the line's end the cursor goes, which makes spaces: further than
	// terminals are wide, and not so far that a few bytes for each time cost the guest much.
	maxGap = 512
)

// show takes what the terminal shows.
func (s *screen) show(b []byte) {
	s.catchUp()
	s.version++
	s.tty.write(s, b)
}

// tell takes what a call's command writes, which is not to change the terminal's
// state. Of a flood only the end is ever looked at.
func (s *screen) tell(b []byte) {
	const most = protocol.TranscriptChars * utf8.UTFMax
	s.version++
	s.told = append(s.told, b[max(0, len(b)-most):]...)
	if len(s.told) > 2*most {
		s.told = append(s.told[:0], s.told[len(s.told)-most:]...)
	}
}

// catchUp looks at what was told.
func (s *screen) catchUp() {
	if len(s.told) > 0 {
		s.tool.write(s, s.told)
		s.tool.full, s.told = false, s.told[:0]
	}
}

// fresh reports whether the cursor is at the beginning of an empty line.
func (s *screen) fresh() bool {
	s.catchUp()
	return len(s.line) == 0
}

// text is the transcript.
func (s *screen) text() string {
	s.catchUp()
	return protocol.LastChars(string(s.log)+string(s.line), protocol.TranscriptChars)
}

// full reports whether a full-screen program has the terminal.
func (s *screen) full() bool { return s.tty.full }

func (s *screen) newline() {
	s.log = append(append(s.log, string(s.line)...), '\n')
	s.line, s.at = s.line[:0], 0
	// Twice as much as is needed, so that it is seldom cut.
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

// move puts the cursor somewhere in the line, which grows up to there.
func (s *screen) move(to int) {
	s.at = max(0, min(to, maxLine-1, len(s.line)+maxGap))
	for len(s.line) < s.at {
		s.line = append(s.line, ' ')
	}
}

// ink is a stream of characters and sequences for terminals.
type ink struct {
	state  inkState
	params []byte // of a control sequence
	part   []byte // the beginning of a character
	full   bool   // a full-screen program paints
}

type inkState byte

const (
	letters inkState = iota
	escape           // after ESC
	charset          // after ESC and an intermediate byte: one more follows
	control          // after ESC [
	text             // in a string, which ends with BEL or ESC
)

// maxParams is more than any control sequence has that means something here.
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

// character is one that belongs to no sequence.
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

// obey does what a control sequence says within a line.
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
