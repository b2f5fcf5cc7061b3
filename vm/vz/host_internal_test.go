//go:build darwin || vzstandin

package vz

import (
	"testing"

	"osaurus-sandbox/vm"
)

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		text             string
		want             release
		runs, canBeSaved bool
	}{
		{"12.7.6", release{12, 7}, false, false},
		{"13.0", release{13, 0}, true, false},
		{"14.5.1", release{14, 5}, true, true},
		{"26", release{26, 0}, true, true},
	} {
		r, err := parseRelease(c.text)
		if err != nil || r != c.want || r.atLeast(oldest) != c.runs {
			t.Errorf("%q is %v, %v", c.text, r, err)
		}
		if (host{vm.ARM64, r}).capabilities().SaveRestore != c.canBeSaved || (host{vm.AMD64, r}).capabilities().SaveRestore {
			t.Errorf("under %v the wrong machines can be saved", r)
		}
	}
	for _, text := range []string{"", "macOS", "14.x", "-1.0"} {
		if r, err := parseRelease(text); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
}
