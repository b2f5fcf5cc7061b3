package tools

import (
	"strings"
	"testing"
)

// A clipped text says how many bytes are missing, including those that the guest cut.
func TestClip(t *testing.T) {
	long := strings.Repeat("h", 400) + strings.Repeat("t", 600)
	for _, tc := range []struct {
		name, text, want string
		lost             uint64
		whole            bool
	}{
		{"short", "abc", "abc", 0, true},
		{"no text", "a\xffb", "a\uFFFDb", 0, true},
		{"too long", long, long[:40] + "\n[… 900 bytes left out …]\n" + long[940:], 0, false},
		{"too long, and the guest left some out", long, long[:40] + "\n[… 905 bytes left out …]\n" + long[940:], 5, false},
		{"the guest left some out, and the rest fits", "hhttt", "hh\n[… 7 bytes left out …]\nttt", 7, false},
		{"characters of several bytes", strings.Repeat("é", 200), strings.Repeat("é", 40) + "\n[… 200 bytes left out …]\n" + strings.Repeat("é", 60), 0, false},
		{"cut in a character", "éé", "\n[… 1 bytes left out …]\néé", 1, false},
	} {
		if got, cut := clip(tc.text, 100, tc.lost); got != tc.want || cut == tc.whole {
			t.Errorf("%s: %q, cut %v, want %q", tc.name, got, cut, tc.want)
		}
	}
}
