package machine

import (
	"testing"
	"time"
)

// What counts as silence is time in which the guest could have been heard, and a guest that
// is slow is given as long for an answer as one that is not silent.
func TestHearing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var h hearing
	ask := func(after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if limit := h.ask(now); limit != want {
			t.Errorf("a question has %v, want %v", limit, want)
		}
	}
	missed := func(after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if silent := h.missed(now); silent != want {
			t.Errorf("it is silent for %v, want %v", silent, want)
		}
	}
	heard := func(after time.Duration) {
		now = now.Add(after)
		h.heard(now)
	}
	ask(time.Hour, silence)
	heard(time.Second)
	ask(pingEvery, silence-pingEvery)
	missed(silence-pingEvery, silence)
	ask(0, silence)
	missed(silence, 2*silence)
	ask(0, silence)
	heard(silence - time.Second) // slow, and not dead
	ask(pingEvery, silence-pingEvery)
	missed(time.Hour, 0) // this process stood still while it waited for the answer
	ask(pingEvery, silence-pingEvery)
	missed(silence-pingEvery, silence)
	ask(time.Hour, silence) // and between two questions
	missed(silence, silence)
	ask(0, silence)
	missed(silence, 2*silence)
	ask(0, silence)
	missed(silence, recovery)
}
