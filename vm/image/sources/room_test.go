package sources

import (
	"strings"
	"testing"
)

// On a Mac a full disk may have purgeable space, which the advice says how to free.
func TestRoomAdvice(t *testing.T) {
	for system, purgeable := range map[string]bool{"darwin": true, "linux": false} {
		if advice := roomAdvice(system); strings.Contains(advice, "tmutil") != purgeable {
			t.Errorf("%s: %s", system, advice)
		}
	}
}
