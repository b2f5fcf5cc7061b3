package library

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// versions is the folder of revisions, with a folder for each plugin.
	versions = "versions"
	// maxRevisions bounds the revisions of a plugin. The oldest are removed first.
	maxRevisions = 50
)

// Revision is the number of a revision of a plugin.
type Revision int

// Past is a revision of a plugin.
type Past struct {
	Entry
	Current bool
	// Err says why Recipe and Hash cannot be read.
	Err error
}

// History lists a plugin's revisions, newest first.
func (l *Library) History(id config.PluginID) ([]Past, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	text, err := read(id, l.path(id))
	if err != nil {
		return nil, err
	}
	history, err := l.revisions(id)
	if err != nil {
		return nil, err
	}
	current, err := l.revisionOf(id, history, text)
	if err != nil {
		return nil, err
	}
	var list []Past
	for _, n := range slices.Backward(history) {
		e, err := l.at(id, n)
		e.ID, e.Revision = id, n
		list = append(list, Past{Entry: e, Current: n == current, Err: err})
	}
	return list, nil
}

// At returns a revision of a plugin.
func (l *Library) At(id config.PluginID, n Revision) (Entry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.at(id, n)
}

func (l *Library) at(id config.PluginID, n Revision) (Entry, error) {
	text, err := l.text(id, n)
	if err != nil {
		return Entry{}, err
	}
	e, err := parse(id, text)
	if err != nil {
		return Entry{}, fault.New(fault.InvalidArgs, "read plugin", revisionName(id, n), err)
	}
	e.Revision = n
	return e, nil
}

func revisionName(id config.PluginID, n Revision) string {
	return fmt.Sprintf("%s, revision %d", id, n)
}

func (l *Library) text(id config.PluginID, n Revision) ([]byte, error) {
	text, err := read(id, l.revisionPath(id, n))
	if fault.KindOf(err) == fault.NotFound {
		return nil, fault.Newf(fault.NotFound, "read plugin", revisionName(id, n), "there is no such revision").Advise("See: osaurus-sandbox plugin history " + string(id))
	}
	return text, err
}

// Rollback makes a new revision with the content of an old one. If n is 0, that is the latest
// revision that differs from the current one.
func (l *Library) Rollback(id config.PluginID, n Revision) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := read(id, l.path(id)); err != nil {
		return Entry{}, err
	}
	if n == 0 {
		var err error
		if n, err = l.before(id); err != nil {
			return Entry{}, err
		}
	}
	past, err := l.at(id, n)
	if err != nil {
		return Entry{}, err
	}
	if own, err := past.Recipe.ID(); err != nil || own != id { // a file that a person put there
		return Entry{}, fault.Newf(fault.Rejected, "roll back plugin", revisionName(id, n), "it has the name %q", past.Recipe.Name).Advise("Export it, change its name and import it.")
	}
	return l.save(id, past.Recipe)
}

// before returns the latest revision that differs from the current one.
func (l *Library) before(id config.PluginID) (Revision, error) {
	history, err := l.revisions(id)
	if err != nil {
		return 0, err
	}
	current, err := l.get(id)
	broken := fault.KindOf(err) == fault.InvalidArgs
	if err != nil && !broken {
		return 0, err
	}
	for _, n := range slices.Backward(history) {
		if e, err := l.at(id, n); err == nil && (broken || n != current.Revision && e.Hash != current.Hash) {
			return n, nil
		}
	}
	return 0, fault.Newf(fault.NotFound, "roll back plugin", string(id), "it has no earlier revision").Advise("See: osaurus-sandbox plugin history " + string(id))
}

func (l *Library) revisionDir(id config.PluginID) string {
	return filepath.Join(l.dir, versions, string(id))
}

func (l *Library) revisionPath(id config.PluginID, n Revision) string {
	return filepath.Join(l.revisionDir(id), strconv.Itoa(int(n))+suffix)
}

// revisions returns the numbers of a plugin's revisions, sorted.
func (l *Library) revisions(id config.PluginID) ([]Revision, error) {
	files, err := os.ReadDir(l.revisionDir(id))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "list revisions", string(id), err).Advise("Make the library's folder readable for you.")
	}
	var list []Revision
	for _, f := range files {
		text, is := strings.CutSuffix(f.Name(), suffix)
		if n, err := strconv.Atoi(text); is && err == nil && n > 0 && strconv.Itoa(n) == text {
			list = append(list, Revision(n))
		}
	}
	slices.Sort(list)
	return list, nil
}

// revisionOf returns the latest revision with exactly this text, or 0.
func (l *Library) revisionOf(id config.PluginID, history []Revision, text []byte) (Revision, error) {
	for _, n := range slices.Backward(history) {
		if other, err := l.text(id, n); err != nil || bytes.Equal(other, text) {
			return n, err
		}
	}
	return 0, nil
}

// after returns the number of the next revision.
func after(history []Revision) Revision {
	if len(history) == 0 {
		return 1
	}
	return history[len(history)-1] + 1
}

// prune removes the oldest revisions.
func (l *Library) prune(id config.PluginID, history []Revision) error {
	var err error
	for _, n := range history[:max(len(history)-maxRevisions, 0)] {
		err = errors.Join(err, removeFile(l.revisionPath(id, n)))
	}
	return err
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Unavailable, "forget revision", path, err).Advise("Make the library's folder writable for you.")
	}
	return nil
}
