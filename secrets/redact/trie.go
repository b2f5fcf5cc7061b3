package redact

import "bytes"

// root is the node where nothing has been matched.
const root int32 = 0

// trie finds all texts of a set in one pass, however they overlap (Aho and
// Corasick's automaton). It takes 28 bytes for each byte of the set, and the set.
type trie struct {
	nodes  []node
	texts  []text
	labels []string
	starts [256]int32 // the children of the root, or 0
	// pairs has a bit for each two bytes that a text begins with: most bytes of an
	// output go no further.
	pairs [1 << 16 / 64]uint64
}

// node is a beginning of one or more texts.
type node struct {
	child, sibling int32 // the first child; the next child of the same parent; 0 is none
	fail           int32 // the longest end of this that is a node too
	depth          int32 // how long this is
	longest        int32 // how long the longest text is that ends here; 0 is none
	label          uint16
	below          uint16 // label of a text that begins with this
	last           byte
}

// text is one of the set.
type text struct {
	text  []byte
	label uint16
}

func newTrie() *trie { return &trie{nodes: make([]node, 1)} }

// add adds a text of two bytes or more. The first label of a text stays.
func (t *trie) add(of, label string) {
	if n := len(t.labels); n == 0 || t.labels[n-1] != label {
		t.labels = append(t.labels, label)
	}
	l := uint16(len(t.labels) - 1)
	t.texts = append(t.texts, text{[]byte(of), l})
	p := pair(of[0], of[1])
	t.pairs[p/64] |= 1 << (p % 64)
	at := root
	for i := range len(of) {
		next := t.child(at, of[i])
		if next == root {
			next = int32(len(t.nodes))
			t.nodes = append(t.nodes, node{last: of[i], sibling: t.nodes[at].child, depth: int32(i + 1), below: l})
			t.nodes[at].child = next
			if at == root {
				t.starts[of[i]] = next
			}
		}
		at = next
	}
	if n := &t.nodes[at]; n.longest == 0 {
		n.longest, n.label = n.depth, l
	}
}

// link completes the trie when all texts are in it.
func (t *trie) link() {
	queue := []int32{root}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for next := t.nodes[at].child; next != root; next = t.nodes[next].sibling {
			queue = append(queue, next)
			n := &t.nodes[next]
			if at != root {
				n.fail = t.step(t.nodes[at].fail, n.last)
			}
			if f := t.nodes[n.fail]; n.longest == 0 {
				n.longest, n.label = f.longest, f.label
			}
		}
	}
}

// child is the node one byte further, or root.
func (t *trie) child(at int32, b byte) int32 {
	if at == root {
		return t.starts[b]
	}
	for c := t.nodes[at].child; c != root; c = t.nodes[c].sibling {
		if t.nodes[c].last == b {
			return c
		}
	}
	return root
}

// step is the longest node that the text up to and with a byte ends with.
func (t *trie) step(at int32, b byte) int32 {
	for at != root {
		if c := t.child(at, b); c != root {
			return c
		}
		at = t.nodes[at].fail
	}
	return t.starts[b]
}

// skip is how many bytes no text begins with. Of the last one only that is sure.
func (t *trie) skip(other []byte) int {
	if len(other) == 0 {
		return 0
	}
	last := other[0]
	for i, b := range other[1:] {
		if p := pair(last, b); t.pairs[p/64]>>(p%64)&1 != 0 {
			return i
		}
		last = b
	}
	return len(other) - 1
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

func (t *trie) depth(at int32) int { return int(t.nodes[at].depth) }

// beginningOfOne is the longest beginning of a text that what led here ends with.
func (t *trie) beginningOfOne(at int32) (length int, label string) {
	return t.depth(at), t.labels[t.nodes[at].below]
}

// endOfOne is the longest end of a text, though not all of it, that another
// text begins with.
func (t *trie) endOfOne(other []byte) (length int, label string) {
	for _, one := range t.texts {
		for cut := 1; len(one.text)-cut > length; cut++ {
			if bytes.HasPrefix(other, one.text[cut:]) {
				length, label = len(one.text)-cut, t.labels[one.label]
			}
		}
	}
	return length, label
}

// within reports whether a text of the set is in a text.
func (t *trie) within(other string) bool {
	at := root
	for i := range len(other) {
		if at = t.step(at, other[i]); t.nodes[at].longest != 0 {
			return true
		}
	}
	return false
}
