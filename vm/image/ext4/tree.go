package ext4

import (
	"path"
	"slices"
	"strings"
	"time"
)

// tree is the files and directories of a file system.
type tree struct {
	root  *node
	nodes []*node // the root, then in the order of their inode numbers
	links []link
}

// link is a hard link whose target may not have come yet.
type link struct{ name, target string }

const (
	rootInode  = 2
	firstInode = 11 // those before are the file system's own
	maxName    = 255
	// maxLinks is what an inode can count. A directory has one for each
	// directory in it.
	maxLinks = 65000
	// maxInodes is how many inodes the groups have bits for.
	maxInodes = maxGroups * blockSize * 8
)

func newTree() *tree {
	root := newDir(0o755)
	root.ino, root.parent, root.links = rootInode, root, 2
	t := &tree{root: root, nodes: []*node{root}}
	// Checkers want it, and want it first.
	if err := t.attach(root, "lost+found", newDir(0o700)); err != nil {
		panic(err) // there is nothing in its way
	}
	return t
}

func newDir(permissions uint16) *node {
	return &node{mode: kindDir | permissions, mtime: time.Unix(0, 0)}
}

// clean is a name of the archive, relative to the root, which is "".
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", rejected("a name with a zero byte")
	}
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", rejected("a name with \"..\"")
	}
	return strings.Trim(path.Clean("/"+name), "/"), nil
}

// insert puts a node at a name. A directory that is already there takes the
// node's attributes and is returned in its place.
func (t *tree) insert(name string, n *node) (*node, error) {
	if name == "" {
		return t.root, t.root.become(n)
	}
	dir, base := path.Split(name)
	parent, err := t.directory(dir)
	if err != nil {
		return nil, err
	}
	if old := parent.children[base]; old != nil {
		return old, old.become(n)
	}
	return n, t.attach(parent, base, n)
}

// become takes the attributes of a second entry for the same directory.
func (n *node) become(other *node) error {
	if n.kind() != kindDir || other.kind() != kindDir {
		return rejected("there are two files of this name")
	}
	n.mode, n.uid, n.gid, n.mtime, n.xattrs = other.mode, other.uid, other.gid, other.mtime, other.xattrs
	return nil
}

// directory returns the directory of a name, and makes what is missing of it
// as root's and open to all.
func (t *tree) directory(name string) (*node, error) {
	at := t.root
	for base := range strings.SplitSeq(name, "/") {
		if base == "" {
			continue
		}
		next := at.children[base]
		if next == nil {
			next = newDir(0o755)
			if err := t.attach(at, base, next); err != nil {
				return nil, err
			}
		}
		if next.kind() != kindDir {
			return nil, rejected("%q in it is not a directory", base)
		}
		at = next
	}
	return at, nil
}

// attach gives a new node its number and its place.
func (t *tree) attach(parent *node, base string, n *node) error {
	switch {
	case len(base) > maxName:
		return rejected("a name of %d bytes, where %d are allowed", len(base), maxName)
	case int(t.lastInode()) >= maxInodes:
		return rejected("more than %d files", maxInodes)
	case n.kind() == kindDir && parent.links >= maxLinks:
		return rejected("more than %d directories in one", maxLinks)
	}
	n.ino, n.links = t.lastInode()+1, 1
	if n.kind() == kindDir {
		n.parent, n.links = parent, 2
		parent.links++
	}
	t.nodes = append(t.nodes, n)
	parent.put(base, n)
	return nil
}

func (t *tree) lastInode() uint32 { return uint32(firstInode + len(t.nodes) - 2) }

func (n *node) put(base string, child *node) {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	n.children[base] = child
}

func (t *tree) linkLater(name, target string) { t.links = append(t.links, link{name, target}) }

// resolveLinks makes the hard links. A link may be to another link, so they
// are gone over until a round resolves none.
func (t *tree) resolveLinks() error {
	for len(t.links) > 0 {
		var left []link
		for _, l := range t.links {
			target := t.lookup(l.target)
			if target == nil {
				left = append(left, l)
				continue
			}
			if err := t.link(l.name, target); err != nil {
				return rejected("%.300q, a link to %.300q: %w", l.name, l.target, err)
			}
		}
		if len(left) == len(t.links) {
			return rejected("%.300q is a link to %.300q, which is not there", left[0].name, left[0].target)
		}
		t.links = left
	}
	return nil
}

func (t *tree) link(name string, target *node) error {
	dir, base := path.Split(name)
	parent, err := t.directory(dir)
	switch {
	case err != nil:
		return err
	case target.kind() == kindDir:
		return rejected("a directory has one name only")
	case base == "" || parent.children[base] != nil:
		return rejected("there are two files of this name")
	case len(base) > maxName:
		return rejected("a name of %d bytes, where %d are allowed", len(base), maxName)
	case target.links >= maxLinks:
		return rejected("more than %d links to one file", maxLinks)
	}
	target.links++
	parent.put(base, target)
	return nil
}

// lookup returns what has the name, following no symbolic link, or nil.
func (t *tree) lookup(name string) *node {
	at := t.root
	for base := range strings.SplitSeq(name, "/") {
		if at = at.children[base]; at == nil {
			return nil
		}
	}
	return at
}
