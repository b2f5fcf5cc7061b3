package ext4

import (
	"cmp"
	"slices"
	"strings"
)

// xattr is an extended attribute. On disk its prefix is a number.
type xattr struct {
	prefix byte
	name   string
	value  string
}

const (
	xattrMagic = 0xea020000
	xattrEntry = 16 // bytes, without the name
)

// newXattr returns an attribute. Access control lists are not supported: they have another
// form on disk than in an archive, and known root file systems have none.
func newXattr(name, value string) (xattr, error) {
	for prefix, number := range map[string]byte{"user.": 1, "trusted.": 4, "security.": 6} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && len(rest) <= 255 {
			return xattr{number, rest, value}, nil
		}
	}
	return xattr{}, rejected("extended attribute %.64q: only user, trusted and security attributes are supported", name)
}

// setXattrs encodes the attributes into the inode: the entries from the start and the
// values from the end. File capabilities, the largest in root file systems, take half of
// the space.
func (n *node) setXattrs(attrs []xattr) error {
	if len(attrs) == 0 {
		return nil
	}
	slices.SortFunc(attrs, func(a, b xattr) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	const head, terminator = 4, 4
	n.xattrs = make([]byte, xattrsInInode)
	le.PutUint32(n.xattrs, xattrMagic)
	at, end := head, len(n.xattrs)
	for _, a := range attrs {
		length, padded := (xattrEntry+len(a.name)+3)&^3, (len(a.value)+3)&^3
		if at+length+terminator > end-padded {
			return rejected("its extended attributes do not fit into the %d bytes of an inode", xattrsInInode)
		}
		end -= padded
		copy(n.xattrs[end:], a.value)
		e := n.xattrs[at:]
		e[0], e[1] = byte(len(a.name)), a.prefix
		if a.value != "" {
			le.PutUint16(e[2:], uint16(end-head))
		}
		le.PutUint32(e[8:], uint32(len(a.value)))
		copy(e[xattrEntry:], a.name)
		at += length
	}
	return nil
}
