package ext4

import (
	"path"
	"strings"
	"time"
)

// tree holds the files and directories of a file system.
type tree struct {
	nodes  []*node          // the root, then in the order of their inode numbers
	byName map[string]*node // by path relative to the root, which is "."
}

const (
	rootInode  = 2
	firstInode = 11 // those before are the file system's own
	// maxLinks is what an inode can count. A directory has one for each
	// directory in it.
	maxLinks = 65000
)

func newTree() *tree {
	root := newDir(0o755)
	root.ino, root.parent, root.links = rootInode, root, 2
	t := &tree{nodes: []*node{root}, byName: map[string]*node{".": root}}
	if _, err := t.insert("lost+found", newDir(0o700)); err != nil { // the first inode: e2fsck expects it
		panic(err)
	}
	return t
}

func newDir(permissions uint16) *node {
	return &node{mode: kindDir | permissions, mtime: time.Unix(0, 0)}
}

// insert adds a new node. If both are directories, it only sets the attributes of an
// existing node and returns that.
func (t *tree) insert(name string, n *node) (*node, error) {
	if old := t.byName[name]; old != nil && old.kind() == kindDir && n.kind() == kindDir {
		old.mode, old.uid, old.gid, old.mtime, old.xattrs = n.mode, n.uid, n.gid, n.mtime, n.xattrs
		return old, nil
	}
	n.ino = t.lastInode() + 1
	if err := t.attach(name, n); err != nil {
		return nil, err
	}
	if n.kind() == kindDir {
		n.parent, n.links = t.byName[path.Dir(name)], 2
		if n.parent.links++; n.parent.links > maxLinks {
			return nil, rejected("more than %d directories in one", maxLinks)
		}
	}
	t.nodes = append(t.nodes, n)
	return n, nil
}

// attach adds a name for a node to its directory, which exists: untar adds missing ones.
func (t *tree) attach(name string, n *node) error {
	if t.byName[name] != nil {
		return rejected("there are two files of this name")
	}
	if n.links++; n.links > maxLinks {
		return rejected("more than %d links to one file", maxLinks)
	}
	parent := t.byName[path.Dir(name)]
	if parent.children == nil {
		parent.children = map[string]*node{}
	}
	parent.children[path.Base(name)] = n
	t.byName[name] = n
	return nil
}

// ensureDir creates a directory and its parents unless they exist.
func (t *tree) ensureDir(name string) error {
	name = strings.Trim(name, "/")
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		switch n := t.byName[name[:i]]; {
		case n == nil:
			if _, err := t.insert(name[:i], newDir(0o755)); err != nil {
				return err
			}
		case n.kind() != kindDir:
			return rejected("%q is not a directory", name[:i])
		}
	}
	return nil
}

func (t *tree) lastInode() uint32 { return uint32(firstInode + len(t.nodes) - 2) }
