//go:build linux

package search

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/gitignore"
)

// maxDepth bounds the depth of folders, because each level holds a descriptor.
const maxDepth = 256

// walker visits the files below a folder in name order, skipping hidden and ignored ones.
type walker struct {
	ctx        context.Context
	visit      func(dir *os.File, path, name string) error // called for each file
	asked      func(path, name string) bool                // reports files to visit despite ignore rules
	unreadable func()
}

// walk visits the files below a folder.
func (w *walker) walk(dir *os.File, path string, above *rules, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err != nil && len(entries) == 0 {
		w.unreadable()
		return nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	here := rulesOf(dir, path, entries, above)
	for _, e := range entries {
		name, folder := e.Name(), e.IsDir()
		if !folder && !e.Type().IsRegular() {
			continue
		}
		at := filepath.Join(path, name)
		if asked := !folder && w.asked(at, name); !asked && here.leavesOut(at, name, folder) {
			continue
		}
		if !folder {
			if err := w.visit(dir, at, name); err != nil {
				return err
			}
			continue
		}
		if depth >= maxDepth {
			w.unreadable()
			continue
		}
		if err := w.into(dir, name, at, here, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) into(dir *os.File, name, path string, above *rules, depth int) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) { // NOATIME needs the folder's owner
		fd, err = unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		w.unreadable()
		return nil
	}
	sub := os.NewFile(uintptr(fd), name)
	defer sub.Close()
	return w.walk(sub, path, above, depth)
}

// rulesOf returns the rules that apply in a folder.
func rulesOf(dir *os.File, path string, entries []fs.DirEntry, above *rules) *rules {
	has := func(name string) bool {
		_, found := slices.BinarySearchFunc(entries, name, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
		return found
	}
	own, git, top := has(".ignore") || has(".rgignore"), has(".gitignore"), has(".git")
	if !own && !git && !top && above != nil {
		return above
	}
	r := &rules{above: above, dir: path, top: top, repo: top || above != nil && above.repo}
	for _, name := range []string{".ignore", ".rgignore"} { // the later takes precedence
		if has(name) {
			r.own = append(r.own, gitignore.Parse(readSmall(dir, name))...)
		}
	}
	if git {
		r.git = gitignore.Parse(readSmall(dir, ".gitignore"))
	}
	if top {
		r.git = append(gitignore.Parse(readSmall(dir, ".git/info/exclude")), r.git...)
	}
	return r
}

// readSmall reads an ignore file. An unreadable file has no rules.
func readSmall(dir *os.File, name string) string {
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return ""
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // a pipe would wait for its writers
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxIgnore)) // partial rules are better than none
	return string(text)
}
