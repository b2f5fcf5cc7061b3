// Package redact replaces the values of secrets in programs' output by their names.
package redact

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
)

const (
	// MinLength is the shortest value that is replaced, in characters. Shorter ones occur in
	// ordinary text by chance.
	MinLength = 6
	// MaxSecrets bounds the secrets that are replaced; the rest of the list is ignored. The search
	// tree takes a megabyte for tokens and passwords, and 256 MiB if all values have the largest
	// size.
	MaxSecrets = 64
)

// Secret is a value with its name.
type Secret struct {
	Name  config.SecretName
	Value secrets.Value
}

// Label returns the text that replaces a secret's value.
func Label(name config.SecretName) string { return "[REDACTED:" + string(name) + "]" }

// Scrubber replaces the values of secrets, and their usual encodings (see forms),
// by their labels.
//
// A byte is replaced if it belongs to any occurrence of any value. Overlapping
// occurrences become one label, that of the longest.
//
// A nil Scrubber changes nothing. A Scrubber is safe for concurrent use.
type Scrubber struct{ trie *trie }

// New returns a Scrubber for the secrets, or nil if none is long enough.
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

// Text replaces values in a complete text.
func (s *Scrubber) Text(text string) string {
	if s == nil || !s.trie.within(text) {
		return text
	}
	return string(s.Part([]byte(text), Whole))
}

// Clipped is Text for text whose end may be missing.
func (s *Scrubber) Clipped(text string) string { return string(s.Part([]byte(text), After)) }

// Excerpt is Text for text whose beginning and end may be missing.
func (s *Scrubber) Excerpt(text string) string { return string(s.Part([]byte(text), Before|After)) }

// Cut says on which sides a text was cut off.
type Cut uint8

const (
	Whole  Cut = 0
	Before Cut = 1 // its beginning is missing
	After  Cut = 2 // its end is missing
)

// Part replaces values in a part of an output. It also replaces the rest of a
// value that was cut through, if MinLength bytes of it are left.
func (s *Scrubber) Part(part []byte, cut Cut) []byte {
	if s == nil {
		return part
	}
	live := new(Live)
	live.Set(s)
	f := NewFlow(live, cut)
	return f.End(f.Feed(nil, part))
}
