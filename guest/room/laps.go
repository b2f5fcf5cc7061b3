//go:build linux

package room

import (
	"fmt"
	"strings"
	"time"
)

// slow is how long a room may take to be made before the console says what of it did. On an
// emulated processor it is some hundred milliseconds, and some seconds on a host with ten times
// too much to do.
const slow = 10 * time.Second

// laps are what parts of some work took, one after the other.
type laps struct {
	began, last time.Time
	parts       []string
}

func newLaps() *laps {
	now := time.Now()
	return &laps{began: now, last: now}
}

// lap ends a part.
func (l *laps) lap(what string) {
	now := time.Now()
	l.parts = append(l.parts, fmt.Sprintf("%s %.1fs", what, now.Sub(l.last).Seconds()))
	l.last = now
}

func (l *laps) String() string {
	return fmt.Sprintf("%.1fs (%s)", l.last.Sub(l.began).Seconds(), strings.Join(l.parts, ", "))
}
