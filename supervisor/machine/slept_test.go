package machine

import (
	"testing"
	"time"
)

// TestUnlived checks that the wall time of a sleep is seen, and no slow tick or clock set back.
func TestUnlived(t *testing.T) {
	start := time.Now()
	for name, tc := range map[string]struct {
		wall, lived time.Duration
		slept       bool
	}{
		"a tick":                        {time.Second, time.Second, false},
		"stopped, not asleep":           {time.Hour, time.Hour, false},
		"asleep":                        {8*time.Hour + time.Second, time.Second, true},
		"set back by hand":              {-time.Hour, time.Second, false},
		"adjusted by a time server":     {2 * time.Second, time.Second, false},
		"asleep, shorter than an event": {sleepSize, time.Second, false},
	} {
		if got := unlived(start, start.Add(tc.wall), tc.lived); (got >= sleepSize) != tc.slept {
			t.Errorf("%s: %v", name, got)
		}
	}
}
