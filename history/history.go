// Package history keeps checkpoints of folders, compares them and restores them.
//
// A checkpoint is a Merkle tree in a content store. It keeps the names, modes and contents of files,
// their times, folders and links. It does not keep owners, extended attributes or the times of folders,
// and restores a file with several names as several files. Nothing is synced: after a power loss, the
// latest checkpoints may be damaged, which Verify finds.
package history

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/history/store"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/queue"
)

const op = "use history"

// Digest names a tree or a content. The zero Digest is the tree without entries.
type Digest = store.Digest

// Options are a history's limits. The zero value has none.
type Options struct {
	// MaxBytes is the budget of the store. A checkpoint that needs more fails, and keeps
	// nothing.
	MaxBytes int64
	// MaxFile is the largest file that is kept.
	MaxFile int64
	// Caches are names of folders that are not kept, such as DefaultCaches. With them, folders with a valid
	// CACHEDIR.TAG are not kept either.
	Caches []string
	// Skip, if not nil, reports which other files and folders are not kept.
	Skip func(path string, folder bool) bool
	// Step, if not nil, is called by Restore before each change of a file.
	Step func(path string)
}

// History is a store of checkpoints. Its methods may be called concurrently; those of one
// key wait for each other. One process at a time may open it.
type History struct {
	dir     string
	store   *store.Store
	options Options
	keys    *queue.Queues[string]
}

// Checkpoint is the state of a folder at one time.
type Checkpoint struct {
	Tree Digest
	Read int // files whose content was read; the others were unchanged
}

// Note says why a file was left alone by Restore.
type Note struct {
	Path string // slash-separated; may hold any byte but NUL
	Why  string
}

// Open opens or makes a history in a folder. It removes what a killed process was writing.
func Open(dir string, options Options) (*History, error) {
	s, err := store.Open(dir, options.MaxBytes)
	return &History{dir, s, options, new(queue.Queues[string])}, err
}

// With returns the same history for folders with other options. MaxBytes stays.
func (h *History) With(o Options) *History { return &History{h.dir, h.store, o, h.keys} }

// head describes the last checkpoint of a key.
type head struct {
	Key     string
	Tree    Digest
	Scanned time.Time // when the scan of the whole folder began
}

// Folders for files of keys, in the folder of the store.
const (
	heads    = "heads"
	journals = "journals"
)

func fileOf(kind, key string) string {
	return filepath.Join(kind, Digest(sha256.Sum256([]byte(key))).String())
}

// load reads a file of a key, and reports whether there is a valid one.
func (h *History) load(kind, key string, v any) bool {
	data, err := os.ReadFile(filepath.Join(h.dir, fileOf(kind, key)))
	return err == nil && json.Unmarshal(data, v) == nil
}

func (h *History) save(kind, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap("write history", key, err)
	}
	return h.store.WriteFile(fileOf(kind, key), data)
}

func (h *History) drop(kind, key string) error {
	if err := os.Remove(filepath.Join(h.dir, fileOf(kind, key))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap("change history", key, err)
	}
	return nil
}

// each calls f with each valid file of all keys.
func each[T any](h *History, kind string, f func(T) error) error {
	paths, err := filepath.Glob(filepath.Join(h.dir, kind, "*"))
	for _, path := range paths {
		var v T
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &v) == nil {
			if err := f(v); err != nil {
				return err
			}
		}
	}
	return err
}

// Checkpoint records a folder under a key, such as "home/alice", that names the folder each time. It does
// not read files again that have the same size, times and inode as in the key's last checkpoint. An
// unchanged folder has the same Tree as before. With paths, it looks at these files and folders only, and
// takes the rest from the last checkpoint of the key, if there is one. A path that ends in a slash is a folder
// without what is in it.
//
// It follows no links. It reads files that change meanwhile twice, then keeps them as they are: their content
// may be a mixture of versions.
func (h *History) Checkpoint(ctx context.Context, key string, root *os.Root, paths ...string) (Checkpoint, error) {
	give, err := h.keys.Take(ctx, key, nil)
	if err != nil {
		return Checkpoint{}, err
	}
	defer give()
	return h.checkpoint(ctx, key, root, "", paths)
}

// checkpoint is Checkpoint for a caller that has taken the key. It removes files with the name temp.
func (h *History) checkpoint(ctx context.Context, key string, root *os.Root, temp string, paths []string) (Checkpoint, error) {
	selected, err := parsePaths(paths)
	if err != nil {
		return Checkpoint{}, err
	}
	var last head
	there := h.load(heads, key, &last)
	now := head{Key: key, Scanned: time.Now()}
	s := scan{h: h, ctx: ctx, batch: h.store.Begin(), paths: selected, temp: temp, trusted: last.Scanned.Add(-racy).UnixNano()}
	top, err := s.folder(root, "", Entry{Kind: Folder}, last.Tree, 0)
	if err == nil && top.Kind != Folder {
		err = fault.Newf(fault.Rejected, "keep folder", root.Name(), "it has more than %d files", maxNames).Advise("Move some of them into folders.")
	}
	if now.Tree = top.Content; len(selected) > 0 && there {
		now.Scanned = last.Scanned
	}
	if err == nil && (!there || now.Tree != last.Tree || s.out.Read > 0) {
		err = h.save(heads, key, now)
	}
	s.batch.End(err == nil)
	s.out.Tree = now.Tree
	return s.out, err
}

// Head returns the tree of the key's last checkpoint, or false if there is none.
func (h *History) Head(key string) (Digest, bool) {
	var last head
	return last.Tree, h.load(heads, key, &last)
}

// Forget removes a key, also its pending restore. Prune no longer keeps its last tree.
func (h *History) Forget(key string) error {
	give, err := h.keys.Take(context.Background(), key, nil)
	if err != nil {
		return err
	}
	defer give()
	return errors.Join(h.drop(heads, key), h.drop(journals, key))
}

// ForgetAll forgets the keys for which gone holds.
func (h *History) ForgetAll(gone func(key string) bool) error {
	var keys []string
	note := func(file head) error { // a journal has a key too
		keys = append(keys, file.Key)
		return nil
	}
	err := errors.Join(each(h, heads, note), each(h, journals, note))
	for _, key := range keys {
		if gone(key) {
			err = errors.Join(err, h.Forget(key))
		}
	}
	return err
}

// Tree returns the entries of a folder's tree, sorted by name.
func (h *History) Tree(ctx context.Context, tree Digest) ([]Entry, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if tree == (Digest{}) {
		return nil, nil
	}
	data, err := h.store.Read(tree)
	if err != nil {
		return nil, err
	}
	return decodeTree(string(data))
}

// Find returns the entry at a slash-separated path below a tree. The error is of kind NotFound
// if there is none.
func (h *History) Find(ctx context.Context, tree Digest, path string) (e Entry, err error) {
	e = Entry{Kind: Folder, Content: tree}
	for name := range strings.SplitSeq(path, "/") {
		var entries []Entry
		if e.Kind == Folder {
			if entries, err = h.Tree(ctx, e.Content); err != nil {
				return Entry{}, err
			}
		}
		if e = entryOf(entries, name); e.Kind == 0 {
			return e, fault.Newf(fault.NotFound, "find", path, "it is not in this checkpoint")
		}
	}
	return e, nil
}

// Content opens the content of a file, or the target of a link; other kinds have none. At the end of
// each damaged part, Read fails.
func (h *History) Content(e Entry) (io.Reader, error) {
	if e.Kind == File {
		return h.store.Open(e.Content, e.Size)
	}
	return strings.NewReader(e.Target), nil
}

// Limit changes Options.MaxBytes.
func (h *History) Limit(bytes int64) { h.store.Limit(bytes) }

// Used returns the bytes of all objects.
func (h *History) Used() (int64, error) { return h.store.Used() }

// Prune deletes the objects that the trees of keep do not need, and returns their number and bytes. It
// also keeps the last checkpoint of each key and pending restores. Checkpoints may be made meanwhile, and
// their objects stay until the next Prune. Keep is called after the last checkpoints were looked up: so a
// checkpoint is safe if its tree is noted before the key's next one is made.
func (h *History) Prune(ctx context.Context, keep func() ([]Digest, error)) (objects int, bytes int64, err error) {
	return h.store.Sweep(ctx, func(used map[Digest]bool) error {
		var trees []Digest
		err := each(h, heads, func(last head) error {
			trees = append(trees, last.Tree)
			return nil
		})
		more, failed := keep()
		trees = append(trees, more...)
		err = errors.Join(err, failed, each(h, journals, func(j journal) error {
			trees = append(trees, j.To, j.Before, j.Seen)
			return nil
		}))
		if err != nil {
			return err
		}
		m := marker{h: h, used: used, seen: map[Digest]bool{}}
		for _, tree := range trees {
			err = errors.Join(err, m.mark(ctx, tree))
		}
		return err
	})
}

// marker finds all objects that trees need, except in damaged ones: nobody can restore them. An agent's file may
// have the bytes of a tree, so seen remembers which objects were marked as trees.
type marker struct {
	h          *History
	used, seen map[Digest]bool
	lost       map[Digest]bool // if not nil, gets those that are not there
}

func (m *marker) mark(ctx context.Context, tree Digest) error {
	if tree == (Digest{}) || m.seen[tree] {
		return nil
	}
	m.seen[tree] = true
	m.use(tree)
	entries, err := m.h.Tree(ctx, tree)
	err = unlessLost(err)
	for _, e := range entries {
		err = errors.Join(err, m.mark(ctx, e.Tree()))
		if e.Kind == File {
			m.use(e.Content)
			chunks, listErr := m.h.store.Chunks(e.Content, e.Size)
			err = errors.Join(err, unlessLost(listErr))
			for _, d := range chunks {
				m.use(d)
			}
		}
	}
	return err
}

func (m *marker) use(d Digest) {
	if m.lost != nil && !m.used[d] && d != (Digest{}) && !m.h.store.Has(d) {
		m.lost[d] = true
	}
	m.used[d] = true
}

func unlessLost(err error) error {
	if errors.Is(err, store.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Verify reads everything and returns the damaged objects, which it moves away, and those that are missing in
// trees or in the last trees of keys. The next checkpoint of a key that lacks some stores everything again.
func (h *History) Verify(ctx context.Context, trees ...Digest) ([]Digest, error) {
	damaged, err := h.store.Verify(ctx)
	all := map[Digest]bool{}
	for _, d := range damaged {
		all[d] = true
	}
	lacks := func(trees ...Digest) (bool, error) {
		m := marker{h: h, used: map[Digest]bool{}, seen: map[Digest]bool{}, lost: map[Digest]bool{}}
		var err error
		for _, tree := range trees {
			err = errors.Join(err, m.mark(ctx, tree))
		}
		maps.Copy(all, m.lost)
		return len(m.lost) > 0, err
	}
	_, missing := lacks(trees...)
	err = errors.Join(err, missing, each(h, heads, func(last head) error {
		give, err := h.keys.Take(ctx, last.Key, nil)
		if err != nil {
			return err
		}
		defer give()
		if found, err := lacks(last.Tree); !found {
			return err
		}
		return h.drop(heads, last.Key)
	}))
	return slices.Collect(maps.Keys(all)), err
}
