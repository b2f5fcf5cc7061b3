package history

import "io/fs"

// Kind is the kind of an entry.
type Kind byte

// Contents of the last kinds are not kept. Restore leaves such files alone.
const (
	File       Kind = 'f'
	Folder     Kind = 'd'
	Link       Kind = 'l' // a symbolic link
	Special    Kind = 's' // a FIFO, socket or device
	Unreadable Kind = 'u' // a file or folder without permission
	Excluded   Kind = 'x' // a cache
	TooLarge   Kind = 'b' // a file larger than Options.MaxFile
	TooDeep    Kind = 'n' // a folder below maxDepth others
)

// Kinds of entries of an overlay's upper layer, which has only what differs from the folder below it.
const (
	Whiteout Kind = 'w' // hides what is there
	Opaque   Kind = 'o' // a folder that hides all that is in the one there
)

// kinds are all of them.
const kinds = "fdlsuxbnwo"

// Kept reports whether the content of such entries is kept.
func (k Kind) Kept() bool { return k == File || k == Folder || k == Link }

// Entry is a file in a tree.
type Entry struct {
	Name string // any bytes but NUL and "/"
	Kind Kind
	Mode fs.FileMode // permissions, setuid, setgid and sticky, of files and folders

	Size   int64 // of files and links
	Mtime  int64 // of files and links, in nanoseconds since 1970, as is Ctime
	Ctime  int64
	Inode  uint64
	Target string // of links

	// Content is the digest of a file's content, or of a list of chunks, or of a folder's tree. It is
	// equal for files with equal contents.
	Content Digest
}

// Same reports whether two entries are equal themselves, apart from their times. What is in folders may differ.
func (e Entry) Same(other Entry) bool {
	return e.Kind == other.Kind && (e.Kind == 0 || what(e, other) == "")
}

// NewChange returns the difference of two entries that are not the Same.
func NewChange(path string, before, after Entry) Change {
	return Change{path, what(before, after), before, after}
}

// What says how a file has changed.
type What string

const (
	Added    What = "added"
	Removed  What = "removed"
	Modified What = "modified" // the content, a link's target or the kind
	Mode     What = "mode"     // the mode alone
)

// Change is the difference of a file in two trees.
type Change struct {
	Path          string // slash-separated; may hold any byte but NUL
	What          What
	Before, After Entry // the zero Entry if it was added or removed
}

// Lines is the difference of two texts.
type Lines struct {
	Added, Removed int
	Binary         bool     // one has a NUL, or is longer than MaxText: not compared
	Hunks          []string // of a unified diff
}
