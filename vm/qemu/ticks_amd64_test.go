//go:build linux

package qemu

import (
	"math"
	"testing"
)

// Measurements of the counter's rate must agree.
func TestTickRate(t *testing.T) {
	first := tickRate()
	if first < 100_000 || first > 10_000_000 {
		t.Fatalf("%d ticks in a millisecond", first)
	}
	for range 5 {
		if next := tickRate(); math.Abs(float64(next-first)) > float64(first)/100 {
			t.Errorf("%d ticks in a millisecond, and then %d", first, next)
		}
	}
}
