// Package artifacts keeps what agents hand over to people: copies in a folder of the home, and who handed over what, and when.
package artifacts

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/removeall"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/supervisor/store"
)

const (
	// MaxSize bounds one artifact, all of its files together: results for a person, not
	// disk images. More is refused.
	MaxSize = 256 << 20
	// MaxFiles bounds how many files one has. More are refused.
	MaxFiles = 1_000
	// Keep and KeepBytes are what is kept of one agent, so that none fills the person's
	// disk. One more is refused until somebody deletes some.
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
	privateFile fs.FileMode = 0o600 // and never to be executed
	// drafts is how the names of what is not kept yet begin. No session's does.
	drafts = ".draft-"
)

// ID is an artifact's number.
type ID int64

// Artifact is what an agent has handed over.
type Artifact struct {
	ID          ID
	Agent       config.AgentID
	AgentName   config.AgentName // when it was handed over
	Session     config.SessionID
	Name        string // in the session's folder
	Description string
	Folder      bool
	Type        string // of its content, by what it begins with
	Files       int
	Size        int64
	// SHA256 is the digest of the file, or of a folder that of what sha256sum would say
	// of its files, sorted by their paths.
	SHA256  string
	Created time.Time
}

// Options are what artifacts are kept with.
type Options struct {
	Home   config.Home
	DB     *store.DB
	Record events.Recorder
}

// Artifacts are those of a home. The methods may be called from any goroutine; their
// errors are *fault.Error.
type Artifacts struct {
	Options
	root *os.Root // all files are touched through it

	mu     sync.Mutex
	drafts map[config.AgentID]int // how many are under way
}

// Open opens the artifacts of a home, and clears away what was never kept.
func Open(ctx context.Context, o Options) (*Artifacts, error) {
	dir, err := o.Home.Make(o.Home.Artifacts())
	if err != nil {
		return nil, err
	}
	a := &Artifacts{Options: o, drafts: map[config.AgentID]int{}}
	if a.root, err = os.OpenRoot(dir); err != nil {
		return nil, a.fault("open artifacts", "", err)
	}
	if err := a.clear(ctx); err != nil {
		return nil, errors.Join(a.fault("clear artifacts", "", err), a.root.Close())
	}
	return a, nil
}

// Close gives the folder back.
func (a *Artifacts) Close() error { return a.root.Close() }

func (a *Artifacts) fault(op, subject string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return fault.New(fault.Unavailable, op, subject, err).Advise("See that " + a.Home.Artifacts() + " is a folder of yours, and that its disk has room.")
}

// within is an artifact's path in the folder of all.
func (f Artifact) within() string { return path.Join(string(f.Session), f.Name) }

// Path is where an artifact is on this computer.
func (a *Artifacts) Path(f Artifact) string {
	return path.Join(a.Home.Artifacts(), f.within())
}

// columns are those of a row, as scan reads them.
const columns = "id, agent, agent_name, session, name, description, folder, type, files, size, sha256, created"

func scan(row store.Row) (f Artifact, err error) {
	err = row.Scan(&f.ID, &f.Agent, &f.AgentName, &f.Session, &f.Name, &f.Description, &f.Folder, &f.Type, &f.Files, &f.Size, &f.SHA256, store.Time(&f.Created))
	return f, err
}

// Filter says which artifacts are meant. Empty is any.
type Filter struct {
	// Agent is an id, or a name that the agent had. Who has gone is found too.
	Agent   string
	Session config.SessionID
}

// page is how many are read from the database at a time: no reader keeps a
// transaction open while its client is slow.
const page = 64

// List yields artifacts, the newest first.
func (a *Artifacts) List(ctx context.Context, f Filter) iter.Seq2[Artifact, error] {
	return store.Pages(page, func(last Artifact) ([]Artifact, error) {
		return store.Select(ctx, a.DB, "list artifacts", scan, "SELECT "+columns+` FROM artifacts WHERE id < ?1 AND ?2 IN ('', agent, agent_name) AND ?3 IN ('', session)
			ORDER BY id DESC LIMIT ?4`, cmp.Or(last.ID, math.MaxInt64), f.Agent, f.Session, page)
	})
}

// Get finds an artifact.
func (a *Artifacts) Get(ctx context.Context, id ID) (f Artifact, err error) {
	const op = "find artifact"
	err = a.DB.Read(ctx, op, func(tx *sql.Tx) error {
		f, err = scan(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM artifacts WHERE id = ?", id))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Newf(fault.NotFound, op, fmt.Sprint(id), "there is none").Advise("See `osaurus-sandbox artifacts list`.")
		}
		return err
	})
	return f, err
}

// Delete deletes an artifact, also one whose files a person has moved away.
func (a *Artifacts) Delete(ctx context.Context, id ID, by machine.Cause) error {
	const op = "delete artifact"
	f, err := a.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := a.remove(f.within()); err != nil {
		return a.fault(op, f.within(), err)
	}
	err = a.DB.Write(ctx, op, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM artifacts WHERE id = ?", id)
		return err
	})
	if err != nil {
		return err
	}
	_ = a.root.Remove(string(f.Session)) // if it was the last one there
	a.note(Deleted, by, f)
	return nil
}

// remove removes what is at a path, if it is there.
func (a *Artifacts) remove(name string) error {
	dir, err := a.root.OpenRoot(path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return removeall.Remove(dir, path.Base(name))
}

func (a *Artifacts) note(kind events.Kind, by machine.Cause, f Artifact) {
	a.Record.Note(events.Event{Kind: kind, Cause: string(by), Fields: map[string]string{
		"artifact": fmt.Sprint(f.ID), "agent": string(f.AgentName), "id": string(f.Agent), "session": string(f.Session), "name": f.Name, "type": f.Type,
	}})
}
