// Package snapshots saves and restores the state of a whole sandbox: data disk, workspace and agents.
package snapshots

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
)

const (
	// format is the version of the layout. A snapshot of another one is refused.
	format = 1
	// Before is the snapshot of the state that a restore replaced.
	Before = "before-restore"

	manifestFile = "manifest.json"
	// unfinished is the prefix of folders that the next daemon removes.
	unfinished = ".new-"

	adviseList = "List them: osaurus-sandbox sandbox snapshot list."
)

// The kinds of events.
const (
	Created  events.Kind = "snapshot.created"
	Restored events.Kind = "snapshot.restored"
	Deleted  events.Kind = "snapshot.deleted"
)

// Snapshot describes a snapshot.
type Snapshot struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"` // zero if the rest cannot be read
	// Base is the digest of the base that the layers on the disk need, or empty.
	Base  string `json:"base"`
	Bytes int64  `json:"-"` // that the disk takes on this computer, unless its blocks are shared
	agents.Saved
}

// Options configure Snapshots.
type Options struct {
	Home    config.Home
	Agents  *agents.Agents
	Machine *machine.Machine
	Record  events.Recorder
}

// Snapshots are the snapshots of a home. The methods may be called by many goroutines at once; one
// makes, restores or deletes at a time.
type Snapshots struct {
	Options
	busy sync.Mutex
}

// Open returns the snapshots of a home and removes unfinished ones.
func Open(o Options) (*Snapshots, error) {
	entries, err := os.ReadDir(o.Home.Snapshots())
	err = unlessMissing(err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			err = errors.Join(err, remove(folder(o.Home, e.Name())))
		}
	}
	return &Snapshots{Options: o}, err
}

func folder(home config.Home, name string) string { return filepath.Join(home.Snapshots(), name) }

// partsOf returns the paths of the parts of a home's state: the disk, and folders.
func partsOf(home config.Home) [3]string {
	return [3]string{home.DataDisk(), home.Workspace(), home.AgentStates()}
}

// partsIn returns the paths of the parts in a snapshot's folder.
func partsIn(dir string) [3]string {
	return [3]string{filepath.Join(dir, "data.ext4"), filepath.Join(dir, "workspace"), filepath.Join(dir, "agents")}
}

// begin checks a name, and keeps other calls from changing the snapshots.
func (s *Snapshots) begin(op, name string) (end func(), err error) {
	if _, err := config.ParseSnapshotName(name); err != nil {
		return nil, err
	}
	if !s.busy.TryLock() {
		return nil, fault.Newf(fault.Rejected, op, name, "another snapshot is being made, restored or deleted").Advise("Try again when that is done.")
	}
	return s.busy.Unlock, nil
}

// assemble calls fill to make a snapshot in a new folder, and gives the folder its name once everything is on
// the disk. After an error, nothing is left.
func (s *Snapshots) assemble(op, name, as string, fill func(dir string) (Snapshot, error)) (made Snapshot, err error) {
	dir, err := s.Home.Make(folder(s.Home, unfinished+rand.Text()))
	if err != nil {
		return made, err
	}
	if made, err = fill(dir); err == nil {
		err = made.write(dir)
	}
	if err == nil {
		err = clone.Sync(dir)
	}
	if err == nil {
		err = os.Rename(dir, folder(s.Home, as))
	}
	if err != nil {
		err = errors.Join(err, remove(dir))
		return made, fault.New(fault.KindOf(err), op, name, err).Advise(cmp.Or(fault.AdviceOf(err), "Nothing has changed. Free disk space on this computer, or delete a snapshot."))
	}
	return made, config.Sync(s.Home.Snapshots())
}

// Create makes a snapshot. Where the file system can share blocks, a running guest goes on: its disk is
// frozen for a moment, and files in the workspace are copied while programs may write to them. With stop,
// or where blocks cannot be shared, the guest is stopped meanwhile.
func (s *Snapshots) Create(ctx context.Context, name string, stop bool, report progress.Func, by machine.Cause) (made Snapshot, err error) {
	const op = "create snapshot"
	end, err := s.begin(op, name)
	if err != nil {
		return made, err
	}
	defer end()
	if _, missing := os.Lstat(folder(s.Home, name)); name == Before || missing == nil {
		return made, fault.Newf(fault.Rejected, op, name, "the name is taken").Advise("Choose another name, or delete that snapshot.")
	}
	made, err = s.assemble(op, name, name, func(dir string) (m Snapshot, err error) {
		from, to := partsOf(s.Home), partsIn(dir)
		return m, s.Agents.Unchanged(ctx, op, func(saved agents.Saved) error {
			m = Snapshot{Format: format, Name: name, Created: time.Now().UTC(), Base: boot.BaseOf(s.Home), Saved: saved}
			if !stop && s.live(ctx, from[0], to[0], report) {
				return copyFolders(ctx, from, to, report)
			}
			return s.Machine.Offline(ctx, by, func(ctx context.Context) error { return copyAll(ctx, from, to, report) })
		})
	})
	if err == nil {
		s.note(Created, name, by)
	}
	return made, err
}

// List returns the snapshots, oldest first.
func (s *Snapshots) List() (list []Snapshot, err error) {
	entries, err := os.ReadDir(s.Home.Snapshots())
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			m, _ := read(s.Home, e.Name()) // without the time of its creation if that fails
			m.Name = e.Name()
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b Snapshot) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	return list, unlessMissing(err)
}

// read reads the description of a snapshot.
func read(home config.Home, name string) (m Snapshot, err error) {
	const op = "read snapshot"
	text, err := os.ReadFile(filepath.Join(folder(home, name), manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fault.Newf(fault.NotFound, op, name, "no such snapshot").Advise(adviseList)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && m.Format != format {
		err = fmt.Errorf("it has format %d, but this program knows %d", m.Format, format)
	}
	if err != nil {
		return Snapshot{}, fault.New(fault.Rejected, op, name, err).Advise("Another osaurus-sandbox may have made it: use that one.")
	}
	if info, err := os.Stat(partsIn(folder(home, name))[0]); err == nil {
		m.Bytes = clone.Allocated(info)
	}
	return m, nil
}

func (m Snapshot) write(dir string) error {
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
	if err := discard(s.Home, name); err != nil {
		return fault.New(fault.KindOf(err), op, name, err).Advise(adviseList)
	}
	s.note(Deleted, name, by)
	return nil
}

func (s *Snapshots) note(kind events.Kind, name string, by machine.Cause) {
	s.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: map[string]string{"snapshot": name}})
}

// discard removes a snapshot. It gets another name first, so that a crash leaves no half of it.
func discard(home config.Home, name string) error {
	other := folder(home, unfinished+rand.Text())
	if err := os.Rename(folder(home, name), other); err != nil {
		return err
	}
	return remove(other)
}

func remove(dir string) error {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	return nofollow.Remove(root, filepath.Base(dir))
}
