package redact

import "slices"

// run is a range of text to replace.
type run struct {
	begin, end int
	longest    int // length of the longest occurrence in it
	label      string
}

// finder searches a stream for values. It holds back text that may turn out to
// be part of a value.
type finder struct {
	trie *trie
	at   int32  // node of the trie
	held []byte // not yet written; at most as long as the deepest node
	runs []run  // in held, in order, not overlapping
}

// feed reads a piece and appends to out what cannot be part of a value any more.
func (f *finder) feed(out, piece []byte) []byte {
	text, from := piece, len(f.held)
	if from > 0 {
		text = append(f.held, piece...)
	}
	done := 0 // how much of text is in out
	settle := func(safe int) {
		for len(f.runs) > 0 && f.runs[0].end <= safe {
			out = append(append(out, text[done:f.runs[0].begin]...), f.runs[0].label...)
			done = f.runs[0].end
			f.runs = f.runs[1:]
		}
	}
	for i := from; i < len(text); i++ {
		if f.at == root {
			i += f.trie.skip(text[i:])
		}
		f.at = f.trie.step(f.at, text[i])
		if n := &f.trie.nodes[f.at]; n.longest != 0 {
			f.found(i+1-int(n.longest), i+1, f.trie.labels[n.label])
		}
		if len(f.runs) > 0 {
			settle(i + 1 - f.trie.depth(f.at)) // later occurrences begin here or after
		}
	}
	safe := max(0, len(text)-f.trie.depth(f.at))
	settle(safe)
	if len(f.runs) > 0 && f.runs[0].begin < safe { // this run may still grow
		out = append(out, text[done:f.runs[0].begin]...)
		f.runs[0].begin = safe
	} else {
		safe = max(done, safe)
		out = append(out, text[done:safe]...)
	}
	for i := range f.runs {
		f.runs[i].begin -= safe
		f.runs[i].end -= safe
	}
	f.held = append(f.held[:0], text[safe:]...)
	return out
}

// found adds an occurrence. Calls come in the order of the ends.
func (f *finder) found(begin, end int, label string) {
	r := run{max(begin, 0), end, end - begin, label}
	for n := len(f.runs); n > 0 && f.runs[n-1].end > r.begin; n = len(f.runs) {
		last := f.runs[n-1]
		f.runs = f.runs[:n-1]
		r.begin = min(r.begin, last.begin)
		if last.longest >= r.longest {
			r.longest, r.label = last.longest, last.label
		}
	}
	f.runs = append(f.runs, r)
}

// undecided returns how many held bytes may still turn out to be ordinary text.
func (f *finder) undecided() int {
	n := len(f.held)
	for _, r := range f.runs {
		n -= r.end - r.begin
	}
	return n
}

// flush appends the held text to out. A value that began in it is replaced from
// here on.
func (f *finder) flush(out []byte) []byte {
	done := 0
	for _, r := range f.runs {
		out = append(append(out, f.held[done:r.begin]...), r.label...)
		done = r.end
	}
	out = append(out, f.held[done:]...)
	f.held, f.runs = f.held[:0], f.runs[:0]
	return out
}

// change switches to another trie and searches the held text again.
func (f *finder) change(to *trie, out []byte) []byte {
	again := f.held
	if n := len(f.runs); n > 0 {
		end := f.runs[n-1].end
		f.held, again = f.held[:end], f.held[end:]
		again = slices.Clone(again)
		out = f.flush(out)
	}
	*f = finder{trie: to}
	if to == nil {
		return append(out, again...)
	}
	return f.feed(out, again)
}
