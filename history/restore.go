package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
	"osaurus-sandbox/internal/progress"
)

// Reasons to leave a file alone.
const (
	whyNotKept = "no checkpoint keeps it"
	whyChanged = "it was changed meanwhile"
	whyInside  = "it has files that no checkpoint keeps, or new ones"
)

// Restored is what Restore did.
type Restored struct {
	Before  Digest // the folder before, under the same key: restore this to redo
	Changed int    // number of changes
	Notes   []Note // files that were left alone
}

// journal is a restore that has not ended.
type journal struct {
	Key        string
	To, Before Digest
	Seen       Digest // what is not as it was here is left alone
	Reviewed   bool
	Paths      [][]byte // JSON's strings cannot hold all paths
	Temp       string   // name of temporary files

	resumed bool
}

func (j *journal) paths() (paths []string) {
	for _, p := range j.Paths {
		paths = append(paths, string(p))
	}
	return paths
}

// Restore brings a folder, or only some paths in it, to a tree. It changes only files that differ, each
// atomically, and follows no links. It leaves alone what no checkpoint keeps and what somebody changes
// meanwhile, also until a Resume. If it fails, it goes back to the state before. If the process is killed, or going
// back fails, the restore is Pending.
func (h *History) Restore(ctx context.Context, key string, root *os.Root, to Digest, paths []string, report progress.Func) (Restored, error) {
	return h.begin(ctx, root, journal{Key: key, To: to}, paths, report)
}

// Apply is Restore for changes that somebody has reviewed when the folder was as in a tree. It also leaves alone
// what is not as it was there, and syncs each file.
func (h *History) Apply(ctx context.Context, key string, root *os.Root, seen, to Digest, paths []string) (Restored, error) {
	return h.begin(ctx, root, journal{Key: key, To: to, Seen: seen, Reviewed: true}, paths, nil)
}

func (h *History) begin(ctx context.Context, root *os.Root, j journal, paths []string, report progress.Func) (Restored, error) {
	key := j.Key
	give, err := h.keys.Take(ctx, key, nil)
	if err != nil {
		return Restored{}, err
	}
	defer give()
	var old journal
	h.load(journals, key, &old)
	j.Temp = cmp.Or(old.Temp, ".osaurus-restore-"+rand.Text())
	for _, p := range paths {
		j.Paths = append(j.Paths, []byte(p))
	}
	return h.restore(ctx, j, root, report)
}

// Pending returns the keys of restores that did not end.
func (h *History) Pending() (keys []string, err error) {
	return keys, each(h, journals, func(j journal) error {
		keys = append(keys, j.Key)
		return nil
	})
}

// Resume finishes the pending restore of a key. It does nothing if there is none.
func (h *History) Resume(ctx context.Context, key string, root *os.Root) (Restored, error) {
	give, err := h.keys.Take(ctx, key, nil)
	if err != nil {
		return Restored{}, err
	}
	defer give()
	var j journal
	if !h.load(journals, key, &j) {
		return Restored{}, nil
	}
	j.resumed = true
	return h.restore(ctx, j, root, nil)
}

func (h *History) restore(ctx context.Context, j journal, root *os.Root, report progress.Func) (out Restored, err error) {
	paths, err := parsePaths(j.paths())
	if err != nil {
		return out, err
	}
	now, err := h.checkpoint(ctx, j.Key, root, j.Temp, paths)
	if err != nil {
		return out, err
	}
	out.Before = cmp.Or(j.Before, now.Tree)
	if j.Before = out.Before; !j.Reviewed && !j.resumed {
		j.Seen = now.Tree
	}
	if err := h.save(journals, j.Key, j); err != nil {
		return out, err
	}
	meter := report.Start("restore files", 0, 0)
	defer meter.Finish()
	r := restorer{h: h, ctx: ctx, journal: j, paths: paths, meter: meter, out: &out, left: map[string]bool{}}
	if err = r.folder(root, "", now.Tree, j.To, j.Seen); err != nil {
		to := j.To
		j.To, j.Seen, j.Reviewed = now.Tree, to, false
		r.journal, r.ctx, r.back = j, context.WithoutCancel(ctx), true
		_ = h.save(journals, j.Key, j) // the disk may be full; then Resume goes on instead
		err = fault.Wrap("restore", cmp.Or(r.failed, j.Key), err)
		if backErr := r.folder(root, "", to, now.Tree, to); backErr != nil {
			return out, fault.Wrap("go back after", j.Key, errors.Join(err, backErr)).Advise("Make room on the disk, and restore again.")
		}
		out.Changed = 0
	}
	return out, errors.Join(err, h.drop(journals, j.Key))
}

// restorer changes a folder from one tree to another.
type restorer struct {
	h   *History
	ctx context.Context
	journal
	paths selection
	meter *progress.Meter
	out   *Restored
	left  map[string]bool // paths that were left alone
	back  bool            // after an error: any part may have been done

	failed string // the path of the first error
}

// folder makes the changes in a folder: first what goes, since that frees space and names that differ
// only in capitals.
func (r *restorer) folder(dir *os.Root, path string, from, to, seen Digest) error {
	now, err := r.h.Tree(r.ctx, from)
	if r.back {
		err = unlessLost(err) // then nothing of it was made
	}
	if err != nil {
		return err
	}
	want, err := r.h.Tree(r.ctx, to)
	if err != nil {
		return err
	}
	was, err := r.h.Tree(r.ctx, seen)
	if r.back {
		err = unlessLost(err)
	}
	if err != nil {
		return err
	}
	for _, step := range []func(dir *os.Root, path string, x, y, z Entry) error{r.remove, r.create} {
		for name, row := range Align(now, want, was) {
			x, y, z, at := row[0], row[1], row[2], join(path, name)
			inside, above := r.paths.has(at)
			if what(x, y) == "" && x.Tree() == y.Tree() || !inside && !above || r.left[at] {
				continue
			}
			if x.Kind != 0 && !x.Kind.Kept() || y.Kind != 0 && !y.Kind.Kept() {
				r.leave(at, whyNotKept)
				continue
			}
			begun := r.resumed && (x.Kind == 0 && y.Kind != z.Kind || x.Kind == Folder) // it was removed, or its mode changed
			if inside && !x.Same(z) && !x.Same(y) && !begun {
				r.leave(at, whyChanged)
				continue
			}
			err := step(dir, at, x, y, z)
			if errors.Is(err, nofollow.ErrReplaced) {
				r.leave(at, whyChanged)
			} else if err != nil {
				r.failed = cmp.Or(r.failed, at)
				return err
			}
		}
	}
	return nil
}

func (r *restorer) leave(path, why string) {
	r.left[path] = true
	r.out.Notes = append(r.out.Notes, Note{path, why})
}

// step is called before a file changes.
func (r *restorer) step(path string) {
	if r.h.options.Step != nil {
		r.h.options.Step(path)
	}
}

// done counts a change.
func (r *restorer) done() {
	if !r.back {
		r.out.Changed++
	}
}

// ready reports whether x is there and must become y. Going back, y may be there already, and x has another inode.
// Otherwise, it fails with ErrReplaced.
func (r *restorer) ready(dir *os.Root, x, y Entry) (bool, error) {
	info, err := dir.Lstat(cmp.Or(x.Name, y.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	switch {
	case r.back && is(dir, info, y) && (y.Kind != File || info.Mode()&validMode == y.Mode):
		return false, nil
	case is(dir, info, x), r.back && x.Kind == File && info != nil && isMade(info, x):
		return true, nil
	}
	return false, nofollow.ErrReplaced
}

// isMade reports whether a file may be the one that a restore made of an entry. Some disks keep times in steps.
func isMade(info fs.FileInfo, e Entry) bool {
	const step, finest = 2 * time.Second, 10 * time.Millisecond
	now := info.ModTime().UnixNano()
	near := now%int64(finest) == 0 && time.Duration(e.Mtime-now).Abs() < step
	return info.Mode().IsRegular() && info.Size() == e.Size && (now == e.Mtime || near)
}

// is reports whether a file is the one that an entry describes.
func is(dir *os.Root, info fs.FileInfo, e Entry) bool {
	if info == nil || e.Kind == 0 {
		return info == nil && e.Kind == 0
	}
	switch e.Kind {
	case File:
		now := fileEntry(e.Name, info)
		return info.Mode().IsRegular() && now.Size == e.Size && now.Mtime == e.Mtime && now.Inode == e.Inode
	case Link:
		target, err := dir.Readlink(e.Name)
		return err == nil && target == e.Target
	}
	return info.IsDir()
}

// remove removes what is not in the tree, or is of another kind there.
func (r *restorer) remove(dir *os.Root, path string, x, y, z Entry) error {
	inside, _ := r.paths.has(path)
	if x.Kind == 0 || x.Kind == y.Kind || !inside && x.Kind != Folder {
		return nil
	}
	if x.Kind == Folder {
		err := r.within(dir, path, x, Entry{Name: x.Name, Mode: x.Mode}, z)
		if r.back && errors.Is(err, nofollow.ErrReplaced) {
			return nil
		}
		if err != nil || !inside {
			return err
		}
	} else if ready, err := r.ready(dir, x, Entry{}); !ready {
		if r.back { // y may be there still, or somebody else's file, which create leaves alone
			return nil
		}
		return err
	}
	r.step(path)
	err := dir.Remove(x.Name)
	switch {
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
		r.leave(path, whyInside)
		return nil
	case errors.Is(err, fs.ErrNotExist) || err == nil:
		r.done()
		return nil
	}
	return err
}

// create makes what is new or different in the tree.
func (r *restorer) create(dir *os.Root, path string, x, y, z Entry) error {
	inside, _ := r.paths.has(path)
	switch {
	case y.Kind == Folder:
		return r.createFolder(dir, path, x, y, z, inside)
	case y.Kind == 0 || !inside:
		return nil
	case x.Kind != y.Kind:
		x = Entry{} // it was removed
	}
	ready, err := r.ready(dir, x, y)
	if !ready {
		return err
	}
	_ = dir.Remove(r.Temp)
	if y.Kind == Link {
		err = dir.Symlink(y.Target, r.Temp)
	} else {
		err = r.write(dir, y)
	}
	if r.step(path); err == nil { // it may have taken a while
		ready, err = r.ready(dir, x, y)
	}
	if err == nil && ready {
		err = dir.Rename(r.Temp, y.Name)
	}
	if err != nil || !ready {
		_ = dir.Remove(r.Temp)
		return err
	}
	r.done()
	return nil
}

func (r *restorer) createFolder(dir *os.Root, path string, x, y, z Entry, inside bool) error {
	switch {
	case x.Kind != Folder:
		if err := dir.Mkdir(y.Name, 0o700); errors.Is(err, fs.ErrExist) && !r.back {
			return nofollow.ErrReplaced
		} else if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		r.done()
	case !inside:
		y.Mode = x.Mode
	case x.Mode != y.Mode:
		r.done()
	}
	return r.within(dir, path, x, y, z)
}

// within makes the changes in a folder, and gives it the mode of y.
func (r *restorer) within(dir *os.Root, path string, x, y, z Entry) error {
	from, to := x.Tree(), y.Tree()
	sub, err := nofollow.Folder(dir, y.Name)
	if err != nil {
		return err
	}
	defer sub.Close()
	info, err := sub.Stat(".")
	if err != nil {
		return err
	}
	now := info.Mode() & validMode
	if from != to && now&0o700 != 0o700 {
		now |= 0o700
		err = sub.Chmod(".", now)
	}
	if err == nil && from != to {
		err = r.folder(sub, path, from, to, z.Tree())
	}
	if err != nil || now == y.Mode { // another user's folder may stay as it is
		return err
	}
	return sub.Chmod(".", y.Mode)
}

// write writes the content of a file to a temporary one.
func (r *restorer) write(dir *os.Root, e Entry) error {
	f, err := dir.OpenFile(r.Temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = r.h.store.Write(r.ctx, f, e.Content, e.Size, r.meter)
	if err == nil {
		err = f.Chmod(e.Mode)
	}
	if err == nil && r.Reviewed {
		err = f.Sync()
	}
	mtime := time.Unix(0, e.Mtime)
	return errors.Join(err, f.Close(), dir.Chtimes(r.Temp, mtime, mtime))
}
