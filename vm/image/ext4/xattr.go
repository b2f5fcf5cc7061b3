package ext4

import (
	"cmp"
	"slices"
	"strings"
)

// xattr is an extended attribute, with its name taken apart as on disk.
type xattr struct {
	index byte // which prefix
	name  string
	value string
}

const (
	xattrMagic = 0xea020000
	xattrEntry = 16 // bytes, without the name
	xattrBlock = 32 // bytes of a block's header
)

func newXattr(name, value string) (xattr, error) {
	// Access control lists (system.posix_acl_*) have another form on disk
	// than in an archive; no root file system that we know has one.
	for prefix, index := range map[string]byte{"user.": 1, "trusted.": 4, "security.": 6} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && len(rest) <= maxName {
			return xattr{index, rest, value}, nil
		}
	}
	return xattr{}, rejected("extended attribute %.64q: only user, trusted and security ones can be kept", name)
}

// setXattrs puts the attributes into the inode where they fit. Otherwise all
// go to a block, which is returned and is to be written at free.
func (n *node) setXattrs(free uint32) ([]byte, error) {
	if len(n.xattrs) == 0 {
		return nil, nil
	}
	slices.SortFunc(n.xattrs, func(a, b xattr) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	const head = 4
	inside := make([]byte, xattrsInInode)
	if _, ok := encodeXattrs(n.xattrs, inside, head, head); ok {
		le.PutUint32(inside, xattrMagic)
		n.inside = inside
		return nil, nil
	}
	block := make([]byte, blockSize)
	hash, ok := encodeXattrs(n.xattrs, block, xattrBlock, 0)
	if !ok {
		return nil, rejected("inode %d has more extended attributes than one block of %d bytes can hold", n.ino, blockSize)
	}
	le.PutUint32(block[0:], xattrMagic)
	le.PutUint32(block[4:], 1) // inodes that use it
	le.PutUint32(block[8:], 1) // blocks
	le.PutUint32(block[12:], hash)
	n.outside = free
	n.extra++
	return block, nil
}

// encodeXattrs writes entries from b[first] on and their values from the end
// of b down. Values are found by their offset from b[origin]. It reports
// whether they fit, and the hash over all.
func encodeXattrs(attrs []xattr, b []byte, first, origin int) (hash uint32, ok bool) {
	const terminator = 4
	at, end := first, len(b)
	for _, a := range attrs {
		length := (xattrEntry + len(a.name) + 3) &^ 3
		padded := (len(a.value) + 3) &^ 3
		if at+length+terminator > end-padded {
			return 0, false
		}
		end -= padded
		copy(b[end:], a.value)
		e := b[at:]
		e[0], e[1] = byte(len(a.name)), a.index
		le.PutUint16(e[2:], uint16(end-origin))
		if a.value == "" {
			le.PutUint16(e[2:], 0)
		}
		le.PutUint32(e[8:], uint32(len(a.value)))
		h := a.hash()
		le.PutUint32(e[12:], h)
		copy(e[xattrEntry:], a.name)
		hash = hash<<16 ^ hash>>16 ^ h
		at += length
	}
	return hash, true
}

// hash is what the kernel finds equal blocks by.
func (a xattr) hash() (h uint32) {
	for _, c := range []byte(a.name) {
		h = h<<5 ^ h>>27 ^ uint32(c)
	}
	value := append([]byte(a.value), make([]byte, -len(a.value)&3)...)
	for ; len(value) > 0; value = value[4:] {
		h = h<<16 ^ h>>16 ^ le.Uint32(value)
	}
	return h
}
