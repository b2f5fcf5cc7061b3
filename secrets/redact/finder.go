package redact

import "slices"

// run is a piece of text that is to be replaced.
type run struct {
	begin, end int
	longest    int // of the occurrences in it
	label      string
}

// finder looks for values in a text that comes in pieces. What may be, or be a
// part of, a value that has not come whole is held back.
type finder struct {
	trie *trie
	at   int32  // where in the trie
	held []byte // the end of the text so far: no more than the trie is deep here
	runs []run  // in held, in order and apart
}

// feed takes a piece, and appends to out what is certain by now.
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
			settle(i + 1 - f.trie.depth(f.at)) // nothing that is yet to be found begins before
		}
	}
	safe := max(0, len(text)-f.trie.depth(f.at))
	settle(safe)
	if len(f.runs) > 0 && f.runs[0].begin < safe { // how far it reaches nobody knows, only that it has begun
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

// found notes an occurrence. It ends behind all others.
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

// plain is how many bytes are held back that are not known to be a value's.
func (f *finder) plain() int {
	n := len(f.held)
	for _, r := range f.runs {
		n -= r.end - r.begin
	}
	return n
}

// flush appends to out what is held back. What is found afterwards and began in
// it is replaced from there on.
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

// change goes on with another trie: what is held back is looked through again.
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
