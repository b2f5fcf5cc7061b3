// Package redact takes the values of secrets out of what programs say: in place of a value stands the name of its secret.
package redact

import (
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
)

const (
	// MinLength is how many characters a value has at least that is looked for. A
	// shorter one is in half of all texts by chance.
	MinLength = 6
	// MaxSecrets is how many secrets are looked for, so that what looks for them
	// is never larger than some tens of megabytes: those first in the list.
	MaxSecrets = 64
)

// Secret is a value and what it is called.
type Secret struct {
	Name  config.SecretName
	Value secrets.Value
}

// Label stands in place of a secret's value.
func Label(name config.SecretName) string { return "[REDACTED:" + string(name) + "]" }

// Scrubber replaces the values of some secrets, and the forms that programs
// often write them in (see forms), by their labels.
//
// A byte is replaced if it is in any occurrence of any value. Occurrences that
// overlap become one label, that of the longest of them; of equals, the first.
//
// A nil Scrubber changes nothing. One may be used by many at once.
type Scrubber struct{ trie *trie }

// New returns what replaces these secrets, or nil if there is nothing to look for.
func New(list []Secret) *Scrubber {
	var t *trie
	for _, s := range list[:min(len(list), MaxSecrets)] {
		for _, form := range forms(s.Value.Reveal()) {
			if t == nil {
				t = newTrie()
			}
			t.add(form, Label(s.Name))
		}
	}
	if t == nil {
		return nil
	}
	t.link()
	return &Scrubber{t}
}

// Text returns a whole text without values.
func (s *Scrubber) Text(text string) string {
	if s == nil || !s.trie.within(text) {
		return text
	}
	return string(s.Part([]byte(text), Whole))
}

// Cut says where a part was cut out of something longer.
type Cut uint8

const (
	Whole  Cut = 0
	Before Cut = 1 // there was something before it
	After  Cut = 2 // there was something after it
)

// Part returns a part of an output without values. Of a value that the cut has
// gone through, it also replaces the rest, if that has MinLength bytes.
func (s *Scrubber) Part(part []byte, cut Cut) []byte {
	if s == nil {
		return part
	}
	f := finder{trie: s.trie}
	if cut&Before != 0 {
		if n, label := s.trie.endOfOne(part); n >= MinLength {
			f.runs = append(f.runs, run{0, n, n, label})
		}
	}
	out := f.feed(nil, part)
	if depth, label := s.trie.beginningOfOne(f.at); cut&After != 0 && depth >= MinLength {
		f.found(len(f.held)-depth, len(f.held), label)
	}
	return f.flush(out)
}

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
			if i += f.trie.skip(text[i:]); i == len(text) {
				break
			}
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
