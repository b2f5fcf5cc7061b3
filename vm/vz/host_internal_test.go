//go:build darwin || vzstandin

package vz

import "testing"

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		text string
		want release
		runs bool
	}{
		{"12.7.6", release{12, 7}, false},
		{"13.0", release{13, 0}, true},
		{"14.5.1", release{14, 5}, true},
		{"26", release{26, 0}, true},
	} {
		r, err := parseRelease(c.text)
		if err != nil || r != c.want || r.atLeast(oldest) != c.runs {
			t.Errorf("%q is %v, %v", c.text, r, err)
		}
	}
	for _, text := range []string{"", "macOS", "14.x", "-1.0"} {
		if r, err := parseRelease(text); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
}
