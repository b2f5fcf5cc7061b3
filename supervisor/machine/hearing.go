package machine

import "time"

const (
	// pingEvery is how often the guest is asked whether it is there.
	pingEvery = time.Second
	// silence is how long a guest may take to answer. A healthy one takes
	// milliseconds, an emulated one on a host with much else to do seconds: one that
	// was silent has as long for each question after.
	silence = 5 * time.Second
	// recovery is how long a guest may be silent before it is started again.
	// A machine that was stopped and let go, or a host that swaps, is back
	// before, and nothing is lost.
	recovery = 15 * time.Second
	// starved is the most that recovery is longer for a machine that could have run and had
	// no processor of this host meanwhile: it is slow, and not dead. One that is both waits
	// for nothing after that.
	starved = time.Minute
	// stall is how much longer than it should a wait must have taken to say
	// that this process itself did not run, and so could not hear the guest.
	stall = time.Second
)

// hearing is when a guest was heard, by one that asks it again and again.
type hearing struct {
	answered time.Time     // when it last did, or may have: then nobody could hear it
	asked    time.Time     // when the question that is under way was
	limit    time.Duration // for its answer
	over     time.Time     // when that was over

	silent bool          // it was, when it was last asked
	waited time.Duration // how long its machine had waited for processors when that began
}

// ask begins a question, and says how long its answer may take. Silence counts from the
// last answer, not from the question.
func (h *hearing) ask(now time.Time) time.Duration {
	if h.answered.IsZero() || now.Sub(h.over) > pingEvery+stall {
		h.answered = now
	}
	h.asked, h.limit = now, silence-now.Sub(h.answered)
	if h.limit <= 0 {
		h.limit = silence
	}
	return h.limit
}

// heard ends a question that was answered.
func (h *hearing) heard(now time.Time) { h.answered, h.over, h.silent = now, now, false }

// missed ends one that was not, and says for how long the guest has been silent.
func (h *hearing) missed(now time.Time) time.Duration {
	if now.Sub(h.asked) > h.limit+stall {
		h.answered = now
	}
	h.over = now
	return now.Sub(h.answered)
}

// patience is how long a guest may be silent before it is started again, whose machine has
// waited for processors for so long by now.
func (h *hearing) patience(waited time.Duration) time.Duration {
	if !h.silent {
		h.silent, h.waited = true, waited
	}
	return recovery + min(max(waited-h.waited, 0), starved)
}
