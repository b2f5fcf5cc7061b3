// Package artifacts stores files that agents share with people: copies in a folder of the home, and a record of each in the database.
package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/nofollow"
	"osaurus-sandbox/internal/queue"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/tools"
)

const (
	// MaxSize bounds the total size of an artifact: it is for results, not for disk images.
	MaxSize = 256 << 20
	// MaxFiles bounds the number of files in an artifact.
	MaxFiles = 1_000
	// Keep and KeepBytes bound the artifacts of one agent, so that no agent fills the disk.
	// Sharing fails at the limit until a person deletes some.
	Keep      = 1_000
	KeepBytes = 4 << 30
)

// The kinds of events.
const (
	Shared  events.Kind = "artifact.shared"
	Deleted events.Kind = "artifact.deleted"
)

const (
	privateDir  fs.FileMode = 0o700
	privateFile fs.FileMode = 0o600 // never executable
	// drafts is the prefix of folders of drafts. No session has such a name.
	drafts = ".draft-"
)

// ID is an artifact's number.
type ID int64

// Artifact is a file or folder that an agent has shared.
type Artifact struct {
	ID          ID
	Agent       config.AgentID
	AgentName   config.AgentName // at the time of sharing
	Session     config.SessionID
	Name        string // in the session's folder
	Description string
	Folder      bool
	Type        string // MIME type, detected from the content
	Files       int
	Size        int64
	// SHA256 is the digest of the file. For a folder, it is the digest of the output of
	// sha256sum for its files, sorted by path.
	SHA256  string
	Created time.Time
}

// Options configure Artifacts.
type Options struct {
	Home   config.Home
	DB     *store.DB
	Record events.Recorder
}

// Artifacts are the artifacts of a home. The methods may be called from any goroutine.
// Their errors are *fault.Error.
type Artifacts struct {
	Options
	root  *os.Root                     // all files are accessed through it
	turns queue.Queues[config.AgentID] // an agent makes one draft at a time, since each may take MaxSize on the disk
}

var _ tools.Artifacts = (*Artifacts)(nil)

// Open opens the artifacts of a home and removes drafts that an earlier daemon left.
func Open(ctx context.Context, o Options) (*Artifacts, error) {
	dir, err := o.Home.Make(o.Home.Artifacts())
	if err != nil {
		return nil, err
	}
	a := &Artifacts{Options: o}
	if a.root, err = os.OpenRoot(dir); err != nil {
		return nil, a.fault("open artifacts", "", err)
	}
	if err := a.clear(); err != nil {
		return nil, errors.Join(a.fault("clear artifacts", "", err), a.root.Close())
	}
	return a, nil
}

// Close closes the folder.
func (a *Artifacts) Close() error { return a.root.Close() }

func (a *Artifacts) fault(op, subject string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return fault.New(fault.Unavailable, op, subject, err).Advise("Check that " + a.Home.Artifacts() + " is a folder of yours, and that its disk has room.")
}

// within returns the path below the folder of artifacts.
func (f Artifact) within() string { return path.Join(string(f.Session), f.Name) }

// Path returns the absolute path of an artifact.
func (a *Artifacts) Path(f Artifact) string {
	return path.Join(a.Home.Artifacts(), f.within())
}

// columns lists the columns that scan reads.
const columns = "id, agent, agent_name, session, name, description, folder, type, files, size, sha256, created"

func scan(row store.Row) (f Artifact, err error) {
	err = row.Scan(&f.ID, &f.Agent, &f.AgentName, &f.Session, &f.Name, &f.Description, &f.Folder, &f.Type, &f.Files, &f.Size, &f.SHA256, store.Time(&f.Created))
	return f, err
}

// Filter selects artifacts. Empty fields match any.
type Filter struct {
	// Agent is the agent's id, or its name when it shared. The agent may be deleted.
	Agent   string
	Session config.SessionID
}

// page bounds the rows of one read, so that a slow client keeps no transaction open.
const page = 64

// List yields artifacts, newest first.
func (a *Artifacts) List(ctx context.Context, f Filter) iter.Seq2[Artifact, error] {
	return store.Pages(page, func(last Artifact) ([]Artifact, error) {
		return store.Select(ctx, a.DB, "list artifacts", scan, "SELECT "+columns+` FROM artifacts WHERE id < ?1 AND ?2 IN ('', agent, agent_name) AND ?3 IN ('', session)
			ORDER BY id DESC LIMIT ?4`, cmp.Or(last.ID, math.MaxInt64), f.Agent, f.Session, page)
	})
}

// Get finds an artifact.
func (a *Artifacts) Get(ctx context.Context, id ID) (Artifact, error) {
	const op = "find artifact"
	f, found, err := store.Find(ctx, a.DB, op, scan, "SELECT "+columns+" FROM artifacts WHERE id = ?", id)
	if err == nil && !found {
		err = fault.Newf(fault.NotFound, op, fmt.Sprint(id), "no such artifact").Advise("See `osaurus-sandbox artifacts list`.")
	}
	return f, err
}

// Delete deletes an artifact, even if its files are gone.
func (a *Artifacts) Delete(ctx context.Context, id ID, by machine.Cause) error {
	const op = "delete artifact"
	f, err := a.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := a.remove(f.within()); err != nil {
		return a.fault(op, f.within(), err)
	}
	if _, err := a.DB.Exec(ctx, op, "DELETE FROM artifacts WHERE id = ?", id); err != nil {
		return err
	}
	_ = a.root.Remove(string(f.Session)) // if it was the last one there
	a.note(Deleted, by, f)
	return nil
}

// clear removes drafts of earlier daemons.
func (a *Artifacts) clear() error {
	entries, err := fs.ReadDir(a.root.FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), drafts) {
			err = errors.Join(err, nofollow.Remove(a.root, e.Name()))
		}
	}
	return err
}

// remove removes a file or folder, if it exists.
func (a *Artifacts) remove(name string) error {
	dir, err := a.root.OpenRoot(path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return nofollow.Remove(dir, path.Base(name))
}

func (a *Artifacts) note(kind events.Kind, by machine.Cause, f Artifact) {
	a.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: map[string]string{
		"artifact": fmt.Sprint(f.ID), "agent": string(f.AgentName), "id": string(f.Agent), "session": string(f.Session), "name": f.Name, "type": f.Type,
	}})
}
