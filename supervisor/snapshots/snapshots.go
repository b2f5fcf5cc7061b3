// Package snapshots saves and restores the state of a whole sandbox: data disk, workspace and agents.
package snapshots

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/removeall"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

const (
	// maxSnapshots bounds the number of snapshots: each may take as much of the disk as the sandbox.
	maxSnapshots = 50
	// format is the version of the layout. A snapshot of another one is refused.
	format = 1
	// Before is the snapshot of the state that a restore replaced.
	Before = "before-restore"

	manifestFile = "manifest.json"
	// unfinished and trash are prefixes of folders that the next daemon removes.
	unfinished, trash = ".new-", ".trash-"

	adviseSpace = "Free disk space on this computer, or delete a snapshot: osaurus-sandbox sandbox snapshot list."
)

// The kinds of events.
const (
	Created  events.Kind = "snapshot.created"
	Restored events.Kind = "snapshot.restored"
	Deleted  events.Kind = "snapshot.deleted"
)

// Manifest describes a snapshot.
type Manifest struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Program string    `json:"program"` // that made it
	// Base is the digest of the base that the layers on the disk need, or empty.
	Base string `json:"base"`
	// Live reports that the guest ran on: see Snapshots.Create.
	Live      bool      `json:"live"`
	DiskSize  int64     `json:"diskSize"`
	DiskBytes int64     `json:"diskBytes"` // that the disk took on this computer
	Workspace clone.Sum `json:"workspace"`
	agents.Saved
}

// Options configure Snapshots.
type Options struct {
	Home    config.Home
	Agents  *agents.Agents
	Machine *machine.Machine
	Program string // this program's release
	Record  events.Recorder
	Log     *slog.Logger
}

// Snapshots are the snapshots of a home. The methods may be called by many goroutines at once; one
// makes, restores or deletes at a time.
type Snapshots struct {
	Options
	busy sync.Mutex
	work sync.WaitGroup
}

// Open returns the snapshots of a home. It removes unfinished ones in the background.
func Open(o Options) *Snapshots {
	s := &Snapshots{Options: o}
	left, _ := os.ReadDir(o.Home.Snapshots()) // now: later ones are under way
	s.work.Go(func() {
		if err := sweep(o.Home, left); err != nil {
			o.Log.Warn("parts of unfinished snapshots are left", "error", err)
		}
	})
	return s
}

// Close waits for work in the background.
func (s *Snapshots) Close() { s.work.Wait() }

// begin returns an error while another call changes the snapshots.
func (s *Snapshots) begin(op, name string) (end func(), err error) {
	if !s.busy.TryLock() {
		return nil, fault.Newf(fault.Rejected, op, name, "another snapshot is being made, restored or deleted").Advise("Try again when that is done.")
	}
	return s.busy.Unlock, nil
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func checkName(op, name string) error {
	if !nameForm.MatchString(name) {
		return fault.Newf(fault.InvalidArgs, op, name, "not a name of a snapshot").Advise("Use up to 64 small letters, digits, dots, dashes and underscores.")
	}
	return nil
}

func folder(home config.Home, name string) string { return filepath.Join(home.Snapshots(), name) }

// List returns the snapshots, oldest first. Those that cannot be read are left out, and named in
// broken.
func (s *Snapshots) List() (list []Manifest, broken []string, err error) {
	entries, err := os.ReadDir(s.Home.Snapshots())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if m, err := read(s.Home, e.Name()); err == nil {
			list = append(list, m)
		} else {
			broken = append(broken, e.Name())
		}
	}
	slices.SortFunc(list, func(a, b Manifest) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	return list, broken, err
}

// read reads the manifest of a snapshot.
func read(home config.Home, name string) (m Manifest, err error) {
	const op = "read snapshot"
	text, err := os.ReadFile(filepath.Join(folder(home, name), manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fault.Newf(fault.NotFound, op, name, "no such snapshot").Advise("List them: osaurus-sandbox sandbox snapshot list.")
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && m.Format != format {
		err = fmt.Errorf("it has format %d, this program knows %d", m.Format, format)
	}
	if err != nil {
		return m, fault.New(fault.Rejected, op, name, err).Advise("Another osaurus-sandbox may have made it: use that one.")
	}
	if name != ready {
		m.Name = name // its folder may have been renamed
	}
	return m, nil
}

func (m Manifest) write(dir string) error {
	text, err := printable.Document(m)
	if err != nil {
		return err
	}
	return config.WriteFile(filepath.Join(dir, manifestFile), text)
}

// Delete deletes a snapshot.
func (s *Snapshots) Delete(name string, by machine.Cause) error {
	const op = "delete snapshot"
	end, err := s.begin(op, name)
	if err != nil {
		return err
	}
	defer end()
	if err := checkName(op, name); err != nil {
		return err
	}
	if err := discard(s.Home, folder(s.Home, name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fault.Newf(fault.NotFound, op, name, "no such snapshot").Advise("List them: osaurus-sandbox sandbox snapshot list.")
		}
		return fault.New(fault.Unavailable, op, name, err).Advise("Make " + s.Home.Snapshots() + " writable.")
	}
	s.note(Deleted, name, by)
	return nil
}

func (s *Snapshots) note(kind events.Kind, name string, by machine.Cause) {
	s.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: map[string]string{"snapshot": name}})
}

// discard removes a folder of the snapshots. It gets another name first, so that a crash leaves no half
// of it.
func discard(home config.Home, dir string) error {
	name := trash + rand.Text()
	if err := os.Rename(dir, folder(home, name)); err != nil {
		return err
	}
	return removeIn(home, name)
}

func removeIn(home config.Home, name string) error {
	root, err := os.OpenRoot(home.Snapshots())
	if err != nil {
		return err
	}
	defer root.Close()
	return removeall.Remove(root, name)
}

// sweep removes what an earlier daemon left unfinished.
func sweep(home config.Home, entries []fs.DirEntry) (err error) {
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) || strings.HasPrefix(e.Name(), trash) {
			err = errors.Join(err, removeIn(home, e.Name()))
		}
	}
	return err
}
