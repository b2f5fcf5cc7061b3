package tools

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func TestReplaceOnce(t *testing.T) {
	for _, tc := range []struct {
		name, file, old, new string
		want                 string // or "!" and a part of the message
		line                 int
	}{
		{"in the middle", "a\nb\nc\n", "b", "x", "a\nx\nc\n", 2},
		{"over lines", "a\nb\nc\nd", "b\nc", "1\n2\n3", "a\n1\n2\n3\nd", 2},
		{"with CRLF, asked for without", "a\r\nb\r\nc\r\n", "b\nc", "x\ny", "a\r\nx\r\ny\r\n", 2},
		{"with CRLF, asked for with it", "a\r\nb\r\n", "a\r\n", "z\r\n", "z\r\nb\r\n", 1},
		{"with CRLF, its line ends changed", "a\r\nb\r\n", "b\r\n", "b\n", "a\r\nb\n", 2},
		{"with both line ends", "a\r\nb\nc\n", "b", "x\ny", "a\r\nx\ny\nc\n", 2},
		{"a text that expressions would take otherwise", "f(x.*)$1\n", "(x.*)$1", "$0\\1", "f$0\\1\n", 1},
		{"not there", "func one() {\n}\nfunc two() {\n}\n", "func three() {", "x", "!\n3: func two() {", 0},
		{"with other spaces", "a\n    return 1\nb\n", "\treturn 1", "x", "!begins as line 2 does, but then has \"\\treturn 1\" where line 2 is \"    return 1\"", 0},
		{"with another line after its first", "a\nb\na\nc\nd\n", "a\nc\ne\n", "x", "!begins as line 3 does, but then has \"e\" where line 5 is \"d\"", 0},
		{"twice", "a\nb\na\n", "a\n", "x", "!2 times, in the lines 1 3", 0},
		{"twice, overlapping", "aaa\n", "aa", "x", "!2 times, in the lines 1 1", 0},
		{"more often than is looked for", strings.Repeat("a\n", 1000), "a", "x", "!at least 100 times, in the lines 1 2 3 4 5 6 7 8 9 10", 0},
		{"the same", "a\n", "a", "a", "!are the same", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, line, err := replaceOnce(t.Context(), []byte(tc.file), tc.old, tc.new)
			if part, bad := strings.CutPrefix(tc.want, "!"); bad {
				if f := failureOf(err); err == nil || !strings.Contains(f.Message, part) || f.Field == "" {
					t.Errorf("%q, %v, want %q", out, err, part)
				}
				return
			}
			if err != nil || string(out) != tc.want || line != tc.line {
				t.Errorf("%q in line %d, %v, want %q in %d", out, line, err, tc.want, tc.line)
			}
		})
	}
}

// The search for occurrences ends with the context.
func TestReplaceOnceIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := replaceOnce(ctx, bytes.Repeat([]byte("a"), 8<<20), strings.Repeat("a", 4<<20), "b")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%.200v", err)
	}
}

// replaceOnce agrees with strings.Replace.
func FuzzEdit(f *testing.F) {
	f.Add("a\nb\nc\nd\ne\nf\ng\nh", "e\n", "E\nE")
	f.Add("no end", "end", "")
	f.Add("", "", "x")
	f.Fuzz(func(t *testing.T, file, old, new string) {
		if old == "" || strings.Contains(file, "\r") {
			return
		}
		out, _, err := replaceOnce(t.Context(), []byte(file), old, new)
		n := 0
		for at := range len(file) {
			if strings.HasPrefix(file[at:], old) {
				n++
			}
		}
		if once := n == 1 && old != new; once != (err == nil) {
			t.Fatalf("%d times: %v", n, err)
		}
		if err != nil {
			if kind := failureOf(err).Kind; kind != fault.Execution && kind != fault.InvalidArgs {
				t.Error(err)
			}
			return
		}
		if want := strings.Replace(file, old, new, 1); string(out) != want {
			t.Errorf("%q, want %q", out, want)
		}
	})
}
