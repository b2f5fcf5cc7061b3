package redact

// Flow replaces values in an output that arrives in pieces.
type Flow struct {
	live   *Live
	cut    Cut
	finder finder
	begun  bool
}

// NewFlow returns a flow that replaces the secrets of live.
func NewFlow(live *Live, cut Cut) *Flow { return &Flow{live: live, cut: cut} }

// Feed reads a piece and appends to out what is safe to show. It holds back at
// most the length of the longest value.
func (f *Flow) Feed(out, piece []byte) []byte {
	var to *trie
	if now := f.live.Scrubber(); now != nil {
		to = now.trie
	}
	if to != f.finder.trie {
		out = f.finder.change(to, out)
	}
	if len(piece) == 0 {
		return out // the beginning has not come yet
	}
	if to == nil {
		f.begun = true
		return append(out, piece...)
	}
	if !f.begun && f.cut&Before != 0 {
		if n, label := to.endOfOne(piece); n >= MinLength {
			f.finder.runs = append(f.finder.runs, run{0, n, n, label})
		}
	}
	f.begun = true
	return f.finder.feed(out, piece)
}

// Held returns how many bytes are held back.
func (f *Flow) Held() int { return len(f.finder.held) }

// idle reports whether pieces pass unchanged.
func (f *Flow) idle() bool { return f.live.Scrubber() == nil && f.finder.trie == nil }

// End appends the held text to out.
func (f *Flow) End(out []byte) []byte {
	if f.finder.trie != nil && f.cut&After != 0 {
		if depth, label := f.finder.trie.beginningOfOne(f.finder.at); depth >= MinLength {
			f.finder.found(len(f.finder.held)-depth, len(f.finder.held), label)
		}
	}
	return f.finder.flush(out)
}
