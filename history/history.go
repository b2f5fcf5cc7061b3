// Package history keeps checkpoints of folders, compares them and restores them.
//
// A checkpoint is a Merkle tree in a content store. It has names, modes, times of files,
// contents and links. It has no owners, extended attributes and times of folders, and a
// file with several names becomes several files when it is restored.
package history

import (
	"context"
	"io"
	"iter"
	"os"

	"osaurus-sandbox/history/store"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
)

// Digest names a tree or a content. The zero Digest is the tree without entries.
type Digest = store.Digest

// Options are a history's limits. The zero value has none.
type Options struct {
	// MaxBytes is the budget of the store. A checkpoint that needs more fails, and keeps
	// nothing.
	MaxBytes int64
	// MaxFile is the largest file that is kept. Larger files are noted.
	MaxFile int64
	// Caches are names of folders that are not kept, such as DefaultCaches. Folders with a
	// valid CACHEDIR.TAG never are.
	Caches []string
}

// History is a store of checkpoints. Its methods may be called concurrently; those of one
// key wait for each other. One process at a time may open it.
type History struct {
	store   *store.Store
	options Options
}

// Checkpoint is a folder at one time.
type Checkpoint struct {
	Tree  Digest
	Files int   // of every kind, without folders
	Bytes int64 // sizes of the files that are kept
	Read  int   // files whose content was read; the others were unchanged
	// Notes are files that are not in the checkpoint as they were, at most maxNotes.
	Notes []Note
}

// Note says why a file was left out of a checkpoint or left alone by Restore.
type Note struct {
	Path string // slash-separated; may hold any byte but NUL
	Why  string
}

// Open opens or makes a history in a folder. It removes what a killed process left.
func Open(dir string, options Options) (*History, error) {
	return nil, errUnfinished
}

// Checkpoint records the folder root under a key, which names the folder from one time to the
// next ("home/alice"). What has the same size, times and inode as in the key's last checkpoint is not
// read again. An unchanged folder has the same Tree as before. With paths, only these files and
// folders are looked at, and the rest is as in the last checkpoint of the key, or not in the tree.
//
// It follows no links. Files that change meanwhile are read twice, then noted: their content may be of
// several times.
func (h *History) Checkpoint(ctx context.Context, key string, root *os.Root, paths ...string) (Checkpoint, error) {
	return Checkpoint{}, errUnfinished
}

// Head returns the tree of the key's last checkpoint, or false if there is none.
func (h *History) Head(key string) (Digest, bool) { return Digest{}, false }

// Forget removes a key. Its last tree is kept no longer by Prune.
func (h *History) Forget(key string) error { return errUnfinished }

// Tree returns the entries of a folder's tree, sorted by name.
func (h *History) Tree(ctx context.Context, tree Digest) ([]Entry, error) { return nil, errUnfinished }

// Find returns the entry at a slash-separated path below a tree. The error is of kind NotFound
// if there is none.
func (h *History) Find(ctx context.Context, tree Digest, path string) (Entry, error) {
	return Entry{}, errUnfinished
}

// Content opens the content of a file, or the target of a link. Read fails where the content is
// damaged. The zero Entry has no content.
func (h *History) Content(e Entry) (io.ReadCloser, error) { return nil, errUnfinished }

// Diff yields the changes from one tree to another: folders before their contents, names in the order
// of their bytes. With paths, only changes at or below them. The last pair has the error, if any.
func (h *History) Diff(ctx context.Context, from, to Digest, paths ...string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) { yield(Change{}, errUnfinished) }
}

// Lines compares the contents of a change.
func (h *History) Lines(ctx context.Context, c Change) (Lines, error) { return Lines{}, errUnfinished }

// Restored is what Restore did.
type Restored struct {
	Before  Checkpoint // the folder before, under the same key: restore this to redo
	Changes []Change   // at most maxChanges
	Changed int        // number of changes
	Notes   []Note     // files that were left alone
}

// Restore brings a folder, or only paths in it, to a tree. It changes only files that differ, each
// atomically, and follows no links. Files that no checkpoint keeps are left alone, as are those that
// somebody changes meanwhile. If it fails, it goes back to what was before. If the process is killed, or
// going back fails, the restore is Pending.
func (h *History) Restore(ctx context.Context, key string, root *os.Root, to Digest, paths []string, report progress.Func) (Restored, error) {
	return Restored{}, errUnfinished
}

// Pending returns the keys of restores that did not end.
func (h *History) Pending() ([]string, error) { return nil, errUnfinished }

// Resume finishes the pending restore of a key. It does nothing if there is none.
func (h *History) Resume(ctx context.Context, key string, root *os.Root, report progress.Func) (Restored, error) {
	return Restored{}, errUnfinished
}

// Prune deletes what only other trees than keep hold. It keeps the last checkpoint of each
// key and pending restores as well. Checkpoints may be made meanwhile.
func (h *History) Prune(ctx context.Context, keep []Digest) (objects int, bytes int64, err error) {
	return 0, 0, errUnfinished
}

// Used returns the bytes of all objects.
func (h *History) Used() (int64, error) { return 0, errUnfinished }

// Verify reads everything and returns the damaged objects. It moves them out of the way, and the next
// checkpoint of each key reads and stores everything again.
func (h *History) Verify(ctx context.Context, report progress.Func) (damaged []Digest, err error) {
	return nil, errUnfinished
}

// Copy copies what is in the folder from to the empty folder to. It shares blocks where the file
// system can. Special files are left out. If it fails, to is empty again.
func Copy(ctx context.Context, from, to *os.Root, report progress.Func) error { return errUnfinished }

var errUnfinished = fault.Newf(fault.Unavailable, "use history", "", "it is being written")
