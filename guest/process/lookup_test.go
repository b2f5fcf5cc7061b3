//go:build linux

package process

import (
	"slices"
	"testing"
)

func TestMergeEnv(t *testing.T) {
	got := MergeEnv([]string{"A=1", "B=2"}, []string{"B=3", "C=4", "A=5", "C=6"})
	if want := []string{"A=5", "B=3", "C=6"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
