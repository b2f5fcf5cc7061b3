//go:build linux

package shell

import (
	"strings"
	"testing"
	"unicode/utf8"

	"osaurus-sandbox/guest/protocol"
)

// The transcript is what a person would read.
func TestScreen(t *testing.T) {
	for _, tc := range []struct{ name, shown, want string }{
		{"lines", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"colours", "\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mrgb\x1b[m", "red rgb"},
		{"title", "\x1b]0;title\x07a\x1b]2;other\x1b\\b", "ab"},
		{"carriage return", "10%\r20%\r100%\r\n", "100%\n"},
		{"shorter after a carriage return", "long text\rab\x1b[K\r\n", "ab\n"},
		{"backspace", "abc\b\b\x1b[KX", "aX"},
		{"insert and delete", "abef\b\b\x1b[2@cd\x1b[1P!", "abcd!"},
		{"columns", "\x1b[5Gx\x1b[1Ga\x1b[2Cb", "a  bx"},
		{"full screen", "before\r\n\x1b[?1049h\x1b[2J\x1b[Hpainted\r\n~\r\n\x1b[?1049lafter", "before\nafter"},
		{"reset while full", "before\r\n\x1b[?1049hpainted\x1bcafter", "before\nafter"},
		{"bracketed paste", "\x1b[?2004h$ ls\r\n\x1b[?2004l\r", "$ ls\n"},
		{"charset", "\x1b(Bx\x1b=y\x1b#8z", "xyz"},
		{"no UTF-8", "a\xffb\xe2\x82", "ab"},
		{"C1", "a\u009b31mb\x9b", "a31mb"},
		{"long sequence", "\x1b[" + strings.Repeat("1;", 10000) + "mx", "x"},
		{"string without end", "\x1b]0;" + strings.Repeat("x", 10000), ""},
		{"long line", strings.Repeat("x", 5000), strings.Repeat("x", 4096) + "\n" + strings.Repeat("x", 904)},
		{"far column", "\x1b[99999999999999999999Gx\x1b[4096Gy", "x" + strings.Repeat(" ", maxGap) + "y"},
		{"far columns", strings.Repeat("\x1b[4096Gx\x1b[2K", 4), strings.Repeat(" ", maxGap)},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			var s screen
			for b := []byte(tc.shown); len(b) > 0; b = b[min(step, len(b)):] {
				s.show(b[:min(step, len(b))])
			}
			if got := s.text(); got != tc.want {
				t.Errorf("%s, by %d: %q, want %q", tc.name, step, got, tc.want)
			}
		}
	}
}

// An unfinished sequence of a command does not hide the output of the next.
func TestUnfinishedSequence(t *testing.T) {
	for _, left := range []string{"\x1b", "\x1b[", "\x1b(", "\x1b]0;", "\x1bP", "\x1bX", "\x1b^", "\x1b_", "\xe2\x82"} {
		var s session
		s.publish([]byte("$ " + left))
		s.tell([]byte("before " + left + "\n"))
		s.announce([]byte("next"))
		s.tell([]byte("output\n"))
		s.publish([]byte("# "))
		if got := s.screen.text(); !strings.HasSuffix(got, "$ next\noutput\n# ") {
			t.Errorf("%q: %q", left, got)
		}
	}
}

// The transcript is bounded and has no control sequences.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("a\r\nb\x1b[2Kc\x1b[?1049hd\x1b[?1049le\x1b]0;x\x07"), uint8(3))
	f.Add([]byte("\xe2\x82\xac\b\b\x1b[3@\x1b[9P\x1b[C\x1b[D"), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		var s screen
		for n := int(step) + 1; len(b) > 0; b = b[min(n, len(b)):] {
			if part := b[:min(n, len(b))]; step%2 == 0 {
				s.show(part)
			} else {
				s.tell(part)
			}
		}
		text := s.text()
		if utf8.RuneCountInString(text) > protocol.TranscriptChars || text != protocol.CleanTranscript(text) {
			t.Errorf("%q", text)
		}
	})
}

// Frames do not depend on how the stream is cut into reads, and use bounded memory.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("r\nb 0123456789abcdef\ne 0123456789abcdef 255\nx\n"), uint8(3))
	f.Add([]byte("e  0\ne a 256\nb a b\n\n\x00\nrr\n"+strings.Repeat("b", 100)+"\nr\n"), uint8(0))
	f.Add([]byte("s 0123456789abcdef 0\np\ns a 256\np 1\n"), uint8(4))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		collect := func(n int) (all []frame) {
			var fs frames
			for rest := b; len(rest) > 0; rest = rest[min(n, len(rest)):] {
				for part := rest[:min(n, len(rest))]; ; {
					got, more, ok := fs.next(part)
					if !ok {
						break
					}
					all, part = append(all, got), more
				}
			}
			if len(fs.line) > maxFrame {
				t.Fatalf("%d bytes are kept", len(fs.line))
			}
			return all
		}
		whole, parts := collect(len(b)+1), collect(int(step)+1)
		if len(whole) != len(parts) {
			t.Fatalf("%v and %v", whole, parts)
		}
		for i, got := range whole {
			if got != parts[i] || got.status < 0 || got.status > 255 || strings.ContainsAny(got.nonce, " \n") {
				t.Errorf("%+v, %+v", got, parts[i])
			}
		}
	})
}

// What is kept does not depend on how the stream is cut into writes.
func FuzzKept(f *testing.F) {
	f.Add([]byte("häßlich\xff\xe2\x82"), uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, step, head uint8) {
		keep := func(n int) string {
			k := kept{headChars: int(head), tailChars: int(head) + 1}
			for rest := b; len(rest) > 0; rest = rest[min(n, len(rest)):] {
				k.write(rest[:min(n, len(rest))])
			}
			o := k.output()
			if c := utf8.RuneCount(o.Head) + utf8.RuneCount(o.Tail); c > 2*int(head)+1 || o.Omitted == 0 && string(o.Head) != string(b) {
				t.Errorf("%d characters of %q: %v", c, b, o)
			}
			return o.String()
		}
		if a, b := keep(len(b)+1), keep(int(step)+1); a != b {
			t.Errorf("%s and %s", a, b)
		}
	})
}
