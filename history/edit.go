package history

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/history/store"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
)

// ByPath compares paths as trees have them: folders before what is in them, names in the order of their bytes.
func ByPath(a, b string) int {
	return cmp.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// Edit makes a tree from another one, with other entries at some paths, and keeps it under a key.
//
// An entry of kind Folder keeps what is in the folder; one without a Kind removes what is there. Only a Whiteout
// replaces a folder in which something is left. Entries below no folder are left out.
//
// A file without Content gets it from the key's last tree if it has the same size, times and inode there, and else
// from open. If open fails, or the size is another one, the file becomes Unreadable.
func (h *History) Edit(ctx context.Context, key string, tree Digest, entries map[string]Entry, open func(path string) (io.ReadCloser, error)) (Digest, error) {
	give, err := h.keys.Take(ctx, key, nil)
	if err != nil {
		return Digest{}, err
	}
	defer give()
	var last head
	there := h.load(heads, key, &last)
	now := head{Key: key, Scanned: time.Now()}
	e := editor{h: h, ctx: ctx, batch: h.store.Begin(), entries: entries, open: open, trusted: last.Scanned.Add(-racy).UnixNano()}
	now.Tree, err = e.folder("", tree, last.Tree, slices.SortedFunc(maps.Keys(entries), ByPath))
	if err == nil && (!there || now.Tree != last.Tree || e.reads) {
		err = h.save(heads, key, now)
	}
	e.batch.End(err == nil)
	return now.Tree, err
}

type editor struct {
	h       *History
	ctx     context.Context
	batch   *store.Batch
	entries map[string]Entry
	open    func(path string) (io.ReadCloser, error)
	trusted int64 // see scan
	reads   bool
}

// folder edits the tree of a folder, given its last tree and the paths below it, in order.
func (e *editor) folder(path string, tree, last Digest, paths []string) (Digest, error) {
	entries, err := e.h.Tree(e.ctx, tree)
	if err != nil {
		return tree, err
	}
	was, _ := e.h.Tree(e.ctx, last) // else everything is new
	all := map[string]Entry{}
	for _, entry := range entries {
		all[entry.Name] = entry
	}
	for len(paths) > 0 {
		name, _, _ := strings.Cut(strings.TrimPrefix(paths[0][len(path):], "/"), "/")
		at, n := join(path, name), 1
		for n < len(paths) && strings.HasPrefix(paths[n], at+"/") {
			n++
		}
		below := paths[:n]
		if paths = paths[n:]; below[0] == at {
			below = below[1:]
		}
		if all[name], err = e.entry(at, name, all[name], entryOf(was, name), below); err != nil {
			return tree, err
		}
	}
	maps.DeleteFunc(all, func(_ string, entry Entry) bool { return entry.Kind == 0 })
	return e.batch.Put(appendTree(nil, slices.SortedFunc(maps.Values(all), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })))
}

// entry returns what becomes of an entry, given the last one.
func (e *editor) entry(path, name string, now, last Entry, below []string) (Entry, error) {
	want, given := e.entries[path]
	if !given {
		want = now
	}
	want.Name = name
	folder := want.Kind == Folder || want.Kind == Opaque
	if folder || now.Kind == Folder {
		content, err := e.folder(path, now.Tree(), last.Tree(), below)
		if err != nil {
			return now, err
		}
		left, err := e.h.Tree(e.ctx, content)
		if !folder && len(left) > 0 && want.Kind != Whiteout {
			want, folder = now, true
		}
		if folder || err != nil {
			want.Content = content
			return want, err
		}
	}
	if !given || want.Kind != File {
		return want, nil
	}
	if same := want; same.Content == (Digest{}) {
		if same.Content = last.Content; same != last || max(want.Mtime, want.Ctime) >= e.trusted {
			return e.read(path, want)
		}
		want = same
	}
	return want, e.batch.Pin(want.Content, want.Size)
}

// read puts the content of a file.
func (e *editor) read(path string, want Entry) (Entry, error) {
	e.reads = true
	f, err := e.open(path)
	if err != nil {
		return e.unreadable(want, err)
	}
	defer f.Close()
	from := &source{Reader: f}
	content, size, err := e.batch.PutFile(e.ctx, from, want.Size)
	if from.err == nil && err == nil {
		if n, _ := from.Read(make([]byte, 1)); n > 0 || size != want.Size {
			from.err = nofollow.ErrReplaced
		}
	}
	if from.err != nil {
		return e.unreadable(want, from.err)
	}
	want.Content = content
	return want, err
}

// unreadable returns the entry of a file that cannot be read, unless nothing can be.
func (e *editor) unreadable(want Entry, err error) (Entry, error) {
	if kind := fault.KindOf(err); e.ctx.Err() == nil && kind != fault.Unavailable && kind != fault.Timeout {
		err = nil
	}
	return Entry{Name: want.Name, Kind: Unreadable}, err
}

// source remembers why reading failed.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
