//go:build linux

// Package search looks for files by their names and for lines by what they hold.
package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize is what is read of a file at once: most are smaller.
	bufferSize = 256 << 10
	// maxLine is the longest line that is looked at whole. Of a longer one, each
	// part of that size is a line: it is data, and not written by a person.
	maxLine = 4 << 20
)

// Query is what to look for.
type Query struct {
	Pattern    string
	Names      bool   // files by name, and not lines
	Include    string // glob: only these files; with ! before it, all but these
	IgnoreCase bool
	Context    int // lines before and after each match
	Limit      int // matches
	LineLimit  int // bytes that are answered of a line
}

// Match is a line, or a file whose name matches.
type Match struct {
	Path    string // relative to where the search began; "" is that itself
	Line    int
	Text    []byte
	Clipped bool
	Context bool // a line around a match
}

// Summary is how a search ended.
type Summary struct {
	Truncated  bool // there are more matches
	Files      uint64
	Unreadable uint64
}

// ErrPattern is behind the error of a pattern that cannot be read.
var ErrPattern = errors.New("the pattern cannot be read")

// Run searches below a folder that is open, or in a file, and tells what it
// finds, file by file in the order of their paths. An error of tell ends it.
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

var errEnough = errors.New("there are matches enough")

// run is a search under way.
type run struct {
	query      Query
	lines      *matcher
	wanted     func(path, name string) bool
	asked      func(path, name string) bool // by a glob, so that no rule counts
	tell       func([]Match) error
	told       int
	truncated  bool
	files      atomic.Uint64
	unreadable atomic.Uint64
}

// wanted says which files are to be looked at, and with Names which are found,
// and which of them were asked for so clearly that no rule leaves them out.
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

// nameGlob matches names; with a slash in it, paths. Without * and ? a pattern
// that may be a part matches what holds it, whatever the capitals.
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
	match, err := compileGlob(strings.TrimPrefix(glob, "/"))
	if err != nil {
		return nil, err
	}
	return func(path, name string) bool { return match.MatchString(of(path, name)) }, nil
}

// look walks, and searches files beside each other. What is found is told in the
// order of the walk.
func (s *run) look(ctx context.Context, at *os.File, folder bool) error {
	ctx, cancel := context.WithCancel(ctx)
	p := newPile(ctx, s.file)
	defer p.wait()
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
	for f := range p.searched() {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = s.say(f.matches)
		}
		if err != nil {
			cancel() // and then until the walk has seen that it is over
		}
	}
	if ended := <-walked; err == nil {
		err = ended
	}
	return err
}

// single searches the one file that was named, whatever it is called.
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

// visitor is what is done with each file of a walk.
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

// say tells what was found in a file, as far as the limit goes.
func (s *run) say(matches []Match) error {
	if len(matches) == 0 {
		return nil
	}
	for i, m := range matches {
		if m.Context {
			continue
		}
		if s.told == s.query.Limit {
			s.truncated = true
			matches = trimContext(matches[:i], s.query.Context)
			break
		}
		s.told++
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

// trimContext takes lines away that only led to a match that is not told.
func trimContext(matches []Match, around int) []Match {
	for n := len(matches); n > 0 && matches[n-1].Context; n-- {
		last := n - 1
		for last >= 0 && matches[last].Context {
			last--
		}
		if last >= 0 && matches[n-1].Line-matches[last].Line <= around {
			return matches[:n]
		}
		matches = matches[:n-1]
	}
	return matches
}

// file searches one file, with a buffer of bufferSize. One that is no text is left
// out.
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
		last = n < len(fresh) // of a regular file, that is its end
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
