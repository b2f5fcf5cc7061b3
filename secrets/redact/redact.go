// Package redact takes the values of secrets out of what programs say: in place of a value stands the name of its secret.
package redact

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
)

const (
	// MinLength is how many characters a value has at least that is looked for. A
	// shorter one is in half of all texts by chance.
	MinLength = 6
	// MaxSecrets is how many secrets are looked for: those first in the list. What
	// looks for them is a megabyte for tokens and passwords, and a quarter of a
	// gigabyte if all are files of the longest size.
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
	live := new(Live)
	live.Set(s)
	f := NewFlow(live, cut)
	return f.End(f.Feed(nil, part))
}
