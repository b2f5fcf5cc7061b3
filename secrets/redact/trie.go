package redact

import "bytes"

// root is the node of the empty match.
const root int32 = 0

// trie is an Aho-Corasick automaton: it finds all texts of a set in one pass. It
// takes 28 bytes of memory for each byte of the set, and the set itself.
type trie struct {
	nodes  []node
	texts  []text
	labels []string
	starts [256]int32 // children of the root, or 0
	// pairs has a bit for each pair of bytes that begins a text. Most output
	// matches none, which makes the search fast.
	pairs [1 << 16 / 64]uint64
}

// node is a prefix of one or more texts.
type node struct {
	child, sibling int32 // first child; next child of the same parent; 0 if none
	fail           int32 // longest proper suffix that is a node
	depth          int32 // length of the prefix
	longest        int32 // length of the longest text that ends here; 0 if none
	label          uint16
	below          uint16 // label of a text with this prefix
	last           byte
}

// text is a member of the set.
type text struct {
	text  []byte
	label uint16
}

func newTrie() *trie { return &trie{nodes: make([]node, 1)} }

// add adds a text of at least two bytes. A text that is already there keeps its
// label.
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

// link completes the trie after the last add.
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

// child returns the child for a byte, or root.
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

// step returns the node after one more byte.
func (t *trie) step(at int32, b byte) int32 {
	for at != root {
		if c := t.child(at, b); c != root {
			return c
		}
		at = t.nodes[at].fail
	}
	return t.starts[b]
}

// skip returns how many leading bytes begin no text. It stops before the last
// byte, whose successor is unknown.
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

// beginningOfOne returns the length and label of the prefix at a node.
func (t *trie) beginningOfOne(at int32) (length int, label string) {
	return t.depth(at), t.labels[t.nodes[at].below]
}

// endOfOne returns the longest proper suffix of a text that other begins with.
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

// within reports whether other contains a text of the set.
func (t *trie) within(other string) bool {
	at := root
	for i := range len(other) {
		if at = t.step(at, other[i]); t.nodes[at].longest != 0 {
			return true
		}
	}
	return false
}
