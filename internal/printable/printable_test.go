package printable

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzClip(f *testing.F) {
	f.Add("plain")
	f.Add("a\x1b[2Jb\r\n\x00\x7f\xff")
	f.Add(strings.Repeat("ü", MaxText))
	f.Add("read \u202etxt.exe")
	f.Fuzz(func(t *testing.T, s string) {
		c := Clip(s)
		if len(c) > 2*MaxText+8 || !utf8.ValidString(c) || strings.ContainsFunc(c, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("%q became %q", s, c)
		}
	})
}

func FuzzCut(f *testing.F) {
	const most = 2 << 10
	f.Add("é", 3000)
	f.Add("\xff", 5000)
	f.Add("a\U0001F995", 1024)
	f.Fuzz(func(t *testing.T, text string, times int) {
		text = strings.Repeat(text, min(max(times, 0), 2*most/(len(text)+1)+2))
		got := Cut(text, most)
		if len(got) > most || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
		if len(text) <= most && utf8.ValidString(text) && got != text {
			t.Errorf("%q was changed to %q", text, got)
		}
		if first := First(text, most); len(first) > most || !utf8.ValidString(first) {
			t.Errorf("%d bytes, valid %v", len(first), utf8.ValidString(first))
		}
		if chars := utf8.RuneCountInString(Line(text, most)); chars > most+1 {
			t.Errorf("%d characters", chars)
		}
	})
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{"": "", " a\n\tb ": "a b", "12345": "12345", "ä\xff 345": "ä\uFFFD 34…"} {
		if got := Line(text, 5); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	for text, want := range map[string][3]int{"": {-1, 1, 1}, "a\nü\uFFFDb": {-1, 2, 4}, "\xff": {0, 1, 1}, "a\nü\xffb": {4, 2, 2}} {
		at := InvalidUTF8([]byte(text))
		look := at
		if at < 0 {
			look = len(text)
		}
		if line, column := Place([]byte(text), look); [3]int{at, line, column} != want {
			t.Errorf("%q: %d at %d:%d, want %v", text, at, line, column, want)
		}
	}
}

func TestLastLines(t *testing.T) {
	for _, tc := range []struct {
		text  string
		lines int
		want  string
	}{{"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\nb\n", 9, "a\nb\n"}, {"a\n", 0, ""}, {"a", 0, ""}, {"", 3, ""}, {"\n\n", 1, "\n"}} {
		if got := LastLines(tc.text, tc.lines); got != tc.want {
			t.Errorf("the last %d of %q are %q", tc.lines, tc.text, got)
		}
	}
}

func TestJSON(t *testing.T) {
	value := map[string]any{"b": "<&>", "a": json.RawMessage(`"</>"`)}
	text, err := JSON(value)
	if want := `{"a":"</>","b":"<&>"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	file, err := Document(value)
	if want := "{\n  \"a\": \"</>\",\n  \"b\": \"<&>\"\n}\n"; err != nil || string(file) != want {
		t.Errorf("%s, %v", file, err)
	}
	if _, err := JSON(func() {}); err == nil {
		t.Error("a function was written")
	}
}

// A shell reads the words back as they were.
func TestQuote(t *testing.T) {
	for _, text := range []string{"", "plain", "it's", "''", `\'`, "$HOME `id` $(id)", "a b\tc\nd", "*?[x]{1,2}~", `"!&|;<>#`, "ä\xff"} {
		out, err := exec.Command("sh", "-c", "printf '<%s>' "+Quote(text)+" "+Quote("next")).Output()
		if want := "<" + text + "><next>"; err != nil || string(out) != want {
			t.Errorf("%q came back as %q, %v", text, out, err)
		}
	}
}
