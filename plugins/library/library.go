// Package library stores the recipes of a home, each in a file, with their revisions.
package library

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// maxPlugins bounds the plugins of a library. Listing so many takes a second.
const maxPlugins = 2000

// Library is the plugins of a home. Only the process with the home's lock changes it. People may
// put files into its folder. Broken files are reported and left alone.
type Library struct {
	dir string
	now func() time.Time
	mu  sync.RWMutex
}

// Options configures a Library.
type Options struct {
	Home config.Home
	Now  func() time.Time
}

// Entry is a plugin of the library.
type Entry struct {
	ID     config.PluginID
	Recipe plugins.Recipe
	Hash   plugins.Hash
	// Revision counts from 1. It is 0 for a file that was changed by hand. The next Save makes a
	// revision of it first.
	Revision Revision
}

// Broken is a file in the library's folder that is not a valid plugin.
type Broken struct {
	Path string
	Err  error
}

// Open opens a library and makes its folder. It removes temporary files that a crash has left.
func Open(o Options) (*Library, error) {
	l := &Library{dir: o.Home.Plugins(), now: o.Now}
	if _, err := o.Home.Make(l.dir); err != nil {
		return nil, err
	}
	for _, pattern := range []string{".*.json.*", filepath.Join(versions, "*", ".*.json.*")} {
		left, _ := filepath.Glob(filepath.Join(l.dir, pattern)) // the pattern is valid
		for _, path := range left {
			_ = os.Remove(path) // or it stays: nothing reads it
		}
	}
	return l, nil
}

const suffix = ".json"

func (l *Library) path(id config.PluginID) string { return filepath.Join(l.dir, string(id)+suffix) }

// List reads all plugins, sorted by id, and reports broken files.
func (l *Library) List() ([]Entry, []Broken, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	names, err := l.names()
	if err != nil {
		return nil, nil, err
	}
	var entries []Entry
	var broken []Broken
	for _, name := range names {
		path := filepath.Join(l.dir, name)
		id, err := config.ParsePluginID(strings.TrimSuffix(name, suffix))
		var e Entry
		if err == nil {
			e, err = l.get(id)
		}
		if err != nil {
			broken = append(broken, Broken{Path: path, Err: err})
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) }) // not the order of files: a-b.json, a.json
	return entries, broken, nil
}

// read reads the file of a plugin or revision, or fails with NotFound.
func read(id config.PluginID, path string) ([]byte, error) {
	const op = "read plugin"
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fault.Newf(fault.NotFound, op, string(id), "there is no such plugin").Advise("See: osaurus-sandbox plugin list")
	case err != nil:
		return nil, fault.New(fault.Unavailable, op, path, err).Advise("Move the file away, or make it readable.")
	}
	return text, nil
}

// names returns the names of the files that should be recipes, sorted.
func (l *Library) names() ([]string, error) {
	files, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "list plugins", l.dir, err).Advise("Make the folder readable for you.")
	}
	var names []string
	for _, f := range files {
		if name := f.Name(); strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// Get returns a plugin. It fails with NotFound, or InvalidArgs for a broken file.
func (l *Library) Get(id config.PluginID) (Entry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.get(id)
}

// Text returns the text of a plugin's file, even if it is broken, or of a revision if n is not 0.
func (l *Library) Text(id config.PluginID, n Revision) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n != 0 {
		return l.text(id, n)
	}
	return read(id, l.path(id))
}

func (l *Library) get(id config.PluginID) (Entry, error) {
	text, err := read(id, l.path(id))
	if err != nil {
		return Entry{}, err
	}
	e, err := parse(id, text)
	if own, wrong := e.Recipe.ID(); err == nil && (wrong != nil || own != id) {
		err = fmt.Errorf("it holds the plugin %q, whose file would be %s", e.Recipe.Name, string(own)+suffix)
	}
	if err != nil {
		return Entry{}, fault.New(fault.InvalidArgs, "read plugin", l.path(id), err).
			Advise(fmt.Sprintf("Correct it: osaurus-sandbox plugin edit %s. Or go back to what it was: osaurus-sandbox plugin rollback %s", id, id))
	}
	history, err := l.revisions(id)
	if err != nil {
		return Entry{}, err
	}
	e.Revision, err = l.revisionOf(id, history, text)
	return e, err
}

func parse(id config.PluginID, text []byte) (Entry, error) {
	r, err := plugins.Parse(text)
	if err != nil {
		return Entry{}, err
	}
	hash, err := r.Hash()
	return Entry{ID: id, Recipe: r, Hash: hash}, err
}

// Check fails if Save would refuse a recipe.
func (l *Library) Check(r plugins.Recipe, may func(old Entry) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, err := l.check(r, may)
	return err
}

// check returns the id of a recipe that can be saved.
func (l *Library) check(r plugins.Recipe, may func(old Entry) error) (config.PluginID, error) {
	if err := plugins.Refusal(plugins.Validate(r)); err != nil {
		return "", err
	}
	id, err := r.ID()
	if err != nil {
		return "", err
	}
	old, err := l.get(id)
	switch fault.KindOf(err) {
	case fault.NotFound:
		names, err := l.names()
		if err == nil && len(names) >= maxPlugins {
			err = fault.Newf(fault.Rejected, "save plugin", l.dir, "there are %d plugins already", len(names)).Advise("Remove some: osaurus-sandbox plugin remove ID")
		}
		return id, err
	case fault.InvalidArgs: // a broken file becomes a revision and is replaced
		return id, nil
	}
	if err == nil {
		err = replace(old, r, may)
	}
	return id, err
}

// Save stores a recipe as a new revision, unless the current one is equal. An error of may prevents
// the replacement of a plugin. Save refuses invalid recipes, and names whose id another name has.
func (l *Library) Save(r plugins.Recipe, may func(old Entry) error) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, err := l.check(r, may)
	if err != nil {
		return Entry{}, err
	}
	return l.save(id, r)
}

// replace reports why a recipe may not replace another.
func replace(old Entry, r plugins.Recipe, may func(old Entry) error) error {
	if old.Recipe.Name != r.Name {
		return fault.Newf(fault.Rejected, "save plugin", string(old.ID), "%q and %q would have the same id", old.Recipe.Name, r.Name).
			Advise("Give it another name, or remove the one that is there: osaurus-sandbox plugin remove " + string(old.ID))
	}
	if hash, err := r.Hash(); err != nil || hash == old.Hash {
		return err
	}
	return may(old)
}

// Create makes Save replace nothing.
func Create(old Entry) error {
	return fault.Newf(fault.Rejected, "save plugin", string(old.ID), "a different plugin of this name exists").
		Advise("Choose another name, or replace it: --update")
}

// Update makes Save replace any plugin.
func Update(Entry) error { return nil }

// save writes a recipe first as a revision and then as the current file, so that after a crash the
// current file is either the old or the new one.
func (l *Library) save(id config.PluginID, r plugins.Recipe) (Entry, error) {
	history, err := l.archive(id)
	if err != nil {
		return Entry{}, err
	}
	hash, err := r.Hash()
	if err != nil {
		return Entry{}, err
	}
	if e, err := l.get(id); err == nil && e.Hash == hash {
		return e, nil
	}
	r.ModifiedAt = l.now().UTC().Truncate(time.Microsecond)
	text, err := r.Encode()
	if err != nil {
		return Entry{}, err
	}
	next := after(history)
	if err := config.WriteFile(l.revisionPath(id, next), text); err != nil {
		return Entry{}, err
	}
	if err := config.WriteFile(l.path(id), text); err != nil {
		return Entry{}, err
	}
	return Entry{ID: id, Recipe: r, Hash: hash, Revision: next}, l.prune(id, append(history, next))
}

// archive makes a revision of the current file if it is not one, and returns all revisions.
func (l *Library) archive(id config.PluginID) ([]Revision, error) {
	history, err := l.revisions(id)
	if err != nil {
		return nil, err
	}
	text, err := read(id, l.path(id))
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return history, nil
	case err != nil:
		return nil, err
	}
	if n, err := l.revisionOf(id, history, text); err != nil || n != 0 {
		return history, err
	}
	next := after(history)
	return append(history, next), config.WriteFile(l.revisionPath(id, next), text)
}

// Duplicate copies a plugin under another name.
func (l *Library) Duplicate(id config.PluginID, name string) (Entry, error) {
	e, err := l.Get(id)
	if err != nil {
		return Entry{}, err
	}
	e.Recipe.Name = name
	return l.Save(e.Recipe, Create)
}

// Remove removes a plugin, even a broken one, and all its revisions.
func (l *Library) Remove(id config.PluginID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := read(id, l.path(id)); fault.KindOf(err) == fault.NotFound {
		return err
	}
	err := os.Remove(l.path(id))
	if err == nil {
		err = errors.Join(os.RemoveAll(l.revisionDir(id)), config.Sync(l.dir))
	}
	if err != nil {
		return fault.New(fault.Unavailable, "remove plugin", string(id), err).Advise("Make the library's folder writable for you.")
	}
	return nil
}
