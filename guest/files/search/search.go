//go:build linux

// Package search finds files by name and lines by content.
package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/gitignore"
)

const (
	// bufferSize is the size of a read. Most files are smaller.
	bufferSize = 256 << 10
	// maxLine is the longest line. A longer one, which is data rather than text, is split.
	maxLine = 4 << 20
)

// Query describes a search.
type Query struct {
	Pattern    string
	Names      bool   // find files by name instead of lines
	Include    string // glob of the files to search; ! at the start excludes them instead
	IgnoreCase bool
	Context    int // lines before and after each match
	Limit      int // matches
	LineLimit  int // bytes returned of a line
}

// Match is a line, or a file whose name matches.
type Match struct {
	Path    string // relative to the search root; "" is the root
	Line    int
	Text    []byte
	Clipped bool
	Context bool // a context line
}

// Summary is how a search ended.
type Summary struct {
	Truncated  bool // matches were left out
	Files      uint64
	Unreadable uint64
}

// ErrPattern is wrapped by errors about an invalid pattern.
var ErrPattern = errors.New("the pattern cannot be read")

// Run searches an open folder or file and passes matches to tell, file by file in path order. An
// error of tell ends it.
func Run(ctx context.Context, at *os.File, q Query, tell func([]Match) error) (Summary, error) {
	s := &run{query: q, tell: tell}
	var err error
	if s.asked, s.wanted, err = wanted(q); err != nil {
		return Summary{}, fmt.Errorf("%w: %w", ErrPattern, err)
	}
	if !q.Names {
		if s.lines, err = compile(q.Pattern, q.IgnoreCase); err != nil {
			return Summary{}, fmt.Errorf("%w: %w", ErrPattern, err)
		}
	}
	st, err := at.Stat()
	if err != nil {
		return Summary{}, err
	}
	err = s.look(ctx, at, st.IsDir())
	if errors.Is(err, errEnough) {
		err = nil
	}
	return Summary{Truncated: s.truncated, Files: s.files.Load(), Unreadable: s.unreadable.Load()}, err
}

var errEnough = errors.New("enough matches")

// run is a running search.
type run struct {
	query      Query
	lines      *matcher
	wanted     func(path, name string) bool
	asked      func(path, name string) bool // named by a glob, so that ignore rules do not apply
	tell       func([]Match) error
	reported   int
	truncated  bool
	files      atomic.Uint64
	unreadable atomic.Uint64
}

// wanted compiles the query's globs: which files to search or find, and which to include despite
// ignore rules.
func wanted(q Query) (asked, wanted func(path, name string) bool, err error) {
	asked = func(string, string) bool { return false }
	wanted = func(string, string) bool { return true }
	if q.Include != "" {
		glob, not := strings.CutPrefix(q.Include, "!")
		match, err := nameGlob(glob, false)
		if err != nil {
			return nil, nil, err
		}
		wanted = func(path, name string) bool { return match(path, name) != not }
		if !not {
			asked = match
		}
	}
	if !q.Names {
		return asked, wanted, nil
	}
	found, err := nameGlob(q.Pattern, true)
	if err != nil {
		return nil, nil, err
	}
	included := wanted
	return asked, func(path, name string) bool { return included(path, name) && found(path, name) }, nil
}

// nameGlob compiles a glob for names, or for paths if it contains a slash. If part is set, a
// pattern without * and ? matches any name containing it, ignoring case.
func nameGlob(glob string, part bool) (func(path, name string) bool, error) {
	whole := strings.Contains(glob, "/")
	of := func(path, name string) string {
		if whole {
			return path
		}
		return name
	}
	if part && !strings.ContainsAny(glob, "*?[{") {
		low := strings.ToLower(strings.TrimPrefix(glob, "/"))
		return func(path, name string) bool { return strings.Contains(strings.ToLower(of(path, name)), low) }, nil
	}
	match, err := gitignore.Compile(strings.TrimPrefix(glob, "/"))
	if err != nil {
		return nil, err
	}
	return func(path, name string) bool { return match.Match(of(path, name)) }, nil
}

// look walks the folder and searches files in parallel. Matches are reported in the walk's order.
func (s *run) look(ctx context.Context, at *os.File, folder bool) error {
	ctx, cancel := context.WithCancel(ctx)
	p := newPile(ctx, s.file)
	defer p.workers.Wait() // until all files are closed
	defer cancel()
	walked := make(chan error, 1)
	go func() {
		defer p.end()
		if !folder {
			walked <- s.single(at, p)
			return
		}
		w := &walker{ctx: ctx, asked: s.asked, unreadable: func() { s.unreadable.Add(1) }, visit: s.visitor(p)}
		walked <- w.walk(at, "", nil, 0)
	}()
	var err error
	for b := range p.order {
		<-b.done
		for _, f := range b.files {
			if err = cmp.Or(err, ctx.Err()); err == nil {
				err = s.say(f.matches)
			}
		}
		if err != nil {
			cancel() // then drain until the walk has stopped
		}
	}
	if ended := <-walked; err == nil {
		err = ended
	}
	return err
}

// single searches a file given by name.
func (s *run) single(at *os.File, p *pile) error {
	if s.query.Names {
		return nil
	}
	fd, err := unix.FcntlInt(at.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.files.Add(1)
	return p.add(file{fd: fd})
}

// visitor returns the function called for each file of a walk.
func (s *run) visitor(p *pile) func(*os.File, string, string) error {
	return func(dir *os.File, path, name string) error {
		if !s.wanted(path, name) {
			return nil
		}
		s.files.Add(1)
		if s.query.Names {
			return p.add(file{path: path, fd: noFile, matches: []Match{{Path: path}}})
		}
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			s.unreadable.Add(1)
			return nil
		}
		return p.add(file{path: path, fd: fd})
	}
}

// say reports a file's matches up to the limit. If there are more, it drops the lines after the last one.
func (s *run) say(matches []Match) error {
	kept := 0
	for i, m := range matches {
		if m.Context {
			continue
		}
		if s.reported == s.query.Limit {
			s.truncated = true
			matches = matches[:kept]
			break
		}
		s.reported++
		kept = i + 1
	}
	if len(matches) > 0 {
		if err := s.tell(matches); err != nil {
			return err
		}
	}
	if s.truncated {
		return errEnough
	}
	return nil
}

// file searches one file with a buffer of bufferSize, skipping binary files.
func (s *run) file(ctx context.Context, f *file, buffer []byte) {
	t := &text{run: s, path: f.path}
	data := buffer[:0]
	for first, last := true, false; !last && ctx.Err() == nil; first = false {
		if len(data) == cap(data) && cap(data) < maxLine {
			data = append(make([]byte, 0, 2*cap(data)), data...)
		}
		fresh := data[len(data):cap(data)]
		n, err := read(f.fd, fresh)
		if err != nil {
			s.unreadable.Add(1)
			break
		}
		last = n < len(fresh) // a short read of a regular file is its end
		fresh, data = fresh[:n], data[:len(data)+n]
		if bytes.IndexByte(fresh, 0) >= 0 {
			if first {
				return
			}
			break
		}
		whole := len(data)
		if !last && whole < maxLine {
			whole = bytes.LastIndexByte(data, '\n') + 1
		}
		if whole > 0 {
			if t.search(data[:whole], last); t.enough() {
				break
			}
			data = append(data[:0], data[whole:]...)
		}
	}
	f.matches = t.matches
}

func read(fd int, b []byte) (int, error) {
	for {
		if n, err := unix.Read(fd, b); err != unix.EINTR {
			return n, err
		}
	}
}
