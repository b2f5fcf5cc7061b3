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
	// maxInodes is how many inodes the groups have bits for.
	maxInodes = maxGroups * blockSize * 8
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

// insert gives a new node its number and its place. For a directory that exists,
// it sets the attributes and returns the existing node.
func (t *tree) insert(name string, n *node) (*node, error) {
	if old := t.byName[name]; old != nil {
		if old.kind() != kindDir || n.kind() != kindDir {
			return nil, rejected("there are two files of this name")
		}
		old.mode, old.uid, old.gid, old.mtime, old.xattrs = n.mode, n.uid, n.gid, n.mtime, n.xattrs
		return old, nil
	}
	if int(t.lastInode()) >= maxInodes {
		return nil, rejected("more than %d files", maxInodes)
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

// attach gives a node a name in its directory, which comes before it.
func (t *tree) attach(name string, n *node) error {
	parent := t.byName[path.Dir(name)]
	if parent == nil || parent.kind() != kindDir {
		return rejected("%q is not a directory", path.Dir(name))
	}
	if n.links++; n.links > maxLinks {
		return rejected("more than %d links to one file", maxLinks)
	}
	if parent.children == nil {
		parent.children = map[string]*node{}
	}
	parent.children[path.Base(name)] = n
	t.byName[name] = n
	return nil
}

// link makes a hard link to a file that comes before it.
func (t *tree) link(name, target string) error {
	n := t.byName[target]
	if n == nil || n.kind() == kindDir {
		return rejected("a hard link to %.300q, which is not a file", target)
	}
	if t.byName[name] != nil {
		return rejected("there are two files of this name")
	}
	return t.attach(name, n)
}

// ensureDir makes a directory and those above it unless they exist.
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
