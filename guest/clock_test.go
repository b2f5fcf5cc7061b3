package guest

import (
	"testing"
	"time"
)

func TestJumped(t *testing.T) {
	start := time.Now()
	for name, tc := range map[string]struct {
		wall, lived time.Duration
		want        bool
	}{
		"a tick":            {time.Second, time.Second, false},
		"a slow tick":       {9 * time.Second, 9 * time.Second, false},
		"adjusted slightly": {time.Second + 100*time.Millisecond, time.Second, false},
		"slept":             {time.Hour, time.Second, true},
		"set back":          {-time.Minute, time.Second, true},
	} {
		if got := jumped(start, start.Add(tc.wall), tc.lived); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
