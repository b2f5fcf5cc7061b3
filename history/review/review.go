// Package review shows what an agent changed in a mounted folder, and brings what a
// person accepts into the real folder.
//
// The agent's changes lie in the upper layer of an overlay. A change is never written
// through a link, and never over a file that has changed since it was reviewed: such
// files are merged with the version that the agent began with, or are conflicts.
package review

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"
	"time"
)

// Kind is what an entry of a folder is. Nothing stands for no entry.
type Kind string

// The kinds of entries. A Whiteout hides an entry of the real folder, and an Opaque
// folder hides all that the real folder has in the folder of that name.
const (
	Nothing  Kind = ""
	File     Kind = "file"
	Folder   Kind = "folder"
	Symlink  Kind = "symlink"
	Other    Kind = "other" // a device, socket or pipe
	Whiteout Kind = "whiteout"
	Opaque   Kind = "opaque"
)

// Entry is one entry of the upper layer. Path is relative to the mounted folder, with
// slashes. Born is when the entry was made there, by the guest's clock, or zero.
type Entry struct {
	Path     string
	Kind     Kind
	Mode     fs.FileMode // permission bits
	Size     int64
	Modified time.Time
	Born     time.Time
	Target   string // of a symlink
}

// Upper reads the upper layer of a mounted folder. What it says is not trusted.
type Upper interface {
	// List yields the entries in any order. Folders that were only passed through may be missing.
	List(ctx context.Context) iter.Seq2[Entry, error]
	// Open reads a file.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
}

// View writes to the merged view of the agent. No method follows links in the last
// element of a path.
type View interface {
	// WriteFile makes or replaces a file.
	WriteFile(ctx context.Context, path string, mode fs.FileMode, content io.Reader) error
	// Symlink makes or replaces a symlink.
	Symlink(ctx context.Context, target, path string) error
	Mkdir(ctx context.Context, path string, mode fs.FileMode) error
	Chmod(ctx context.Context, path string, mode fs.FileMode) error
	// Remove removes a file, a link or an empty folder.
	Remove(ctx context.Context, path string) error
}

// Version is what a path is at one moment. Its digest is that of a file's content (SHA-256).
type Version struct {
	Kind   Kind        `json:"kind,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"` // permission bits of a file or folder
	Size   int64       `json:"size,omitempty"`
	Digest [32]byte    `json:"-"`
	Target string      `json:"target,omitempty"`
}

// Bases remembers for each path the version that the agent's changes began with.
type Bases interface {
	// Base returns a version, or an error that is fs.ErrNotExist if there is none.
	Base(ctx context.Context, path string) (Version, error)
	// Open reads the content of a remembered file.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
	// Remember replaces the version of a path. Content is that of a file, else nil.
	Remember(ctx context.Context, path string, v Version, content io.Reader) error
}

// Review compares the upper layer of one mounted folder with the real folder. View may
// be nil where nothing is rejected. Only one Review may use a Journal. After a killed daemon
// call Resume before anything else.
type Review struct {
	Real    *os.Root
	Upper   Upper
	View    View
	Bases   Bases
	Journal string // path of the file that Accept keeps while it writes

	mu      sync.Mutex         // held by what writes
	reached func(point string) // for tests: Accept is at a point where it may be killed
}

// Type is what happened to a path.
type Type string

// The types of changes. KindChanged is a file that became a folder, for example.
const (
	Added       Type = "added"
	Modified    Type = "modified"
	Deleted     Type = "deleted"
	ModeChanged Type = "mode"
	KindChanged Type = "kind"
)

// Change is the difference between the real folder and what Accept would make of a path.
type Change struct {
	Path string `json:"path"`
	// ID stands for all that was reviewed. If the agent or somebody on the host changes
	// the path, it has another one.
	ID          string  `json:"id"`
	Type        Type    `json:"type"`
	Before      Version `json:"before"`                 // the real one
	After       Version `json:"after"`                  // what Accept writes
	RenamedFrom string  `json:"renamed_from,omitempty"` // a deleted file with the content of this new one
	Binary      bool    `json:"binary,omitempty"`       // has no hunks: not text, or too long
	LinesAdded  int     `json:"lines_added,omitempty"`
	LinesGone   int     `json:"lines_gone,omitempty"`
	Hunks       []Hunk  `json:"hunks,omitempty"`
	Merged      bool    `json:"merged,omitempty"`   // After has changes of both sides
	Conflict    string  `json:"conflict,omitempty"` // why it is not accepted without AcceptConflicts
	BaseKnown   bool    `json:"base_known,omitempty"`
	Runs        string  `json:"runs,omitempty"`    // what may run it on the host
	Git         bool    `json:"git,omitempty"`     // in a .git: never accepted without being named
	Ignored     bool    `json:"ignored,omitempty"` // by .gitignore: never accepted without being named
}

// Hunk is a part of the change of a text file.
type Hunk struct {
	Number int    `json:"number"` // from 1
	Text   string `json:"text"`   // of a unified diff, or "" if not asked for or too much was
}

// Changes is what a review shows.
type Changes struct {
	Changes      []Change `json:"changes"`       // by path; those in a .git come last
	Ignored      int      `json:"ignored"`       // files that .gitignore names, without those asked for by path
	IgnoredBytes int64    `json:"ignored_bytes"` // in them
}

// Query says what to compute. Without paths it is everything that is not ignored.
type Query struct {
	Paths []string
	Hunks bool // with the text of hunks
}

// Pick selects a path and what is below it, or some hunks of one file. What is in a
// .git or ignored is selected only by a path that is so too.
type Pick struct {
	Path  string `json:"path"`
	ID    string `json:"id,omitempty"` // refuse another version than the reviewed one
	Hunks []int  `json:"hunks,omitempty"`
}

// Selection is what a person accepts or rejects. No picks select everything that is
// neither in a .git nor ignored.
type Selection struct {
	Picks           []Pick
	AcceptConflicts bool // take the agent's version
	OutsideLinks    bool // take symlinks that lead out of the folder
}

// Outcome says what became of one change.
type Outcome struct {
	Path   string `json:"path"`
	Merged bool   `json:"merged,omitempty"`
	Reason string `json:"reason,omitempty"` // why it was left
}

// Report lists what was done, and what was left and why.
type Report struct {
	Done []Outcome `json:"done"`
	Left []Outcome `json:"left"`
}
