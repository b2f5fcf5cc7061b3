// Package review shows what an agent changed in a mounted folder, and brings what a
// person accepts into the real folder.
//
// The agent's changes lie in the upper layer of an overlay. A review works on three trees of a
// history: the upper layer, what the real folder has at the same paths, and what both had when the
// agent's changes began. A change is never written over a file that has changed since it was
// reviewed: such files are merged with the version that the agent began with, or are conflicts.
package review

import (
	"context"
	"io"
	"iter"
	"os"
	"time"

	"osaurus-sandbox/history"
)

// Listed is an entry of the upper layer: a File, Folder, Link, Special, Whiteout or Opaque folder. Its path is
// relative to the mounted folder, with slashes. Born is when the entry was made there, by the guest's clock, or zero.
type Listed struct {
	Path string
	history.Entry
	Born time.Time
}

// Upper reads the upper layer of a mounted folder. What it says is not trusted.
type Upper interface {
	// List yields the entries in any order.
	List(ctx context.Context) iter.Seq2[Listed, error]
	// Open reads a file.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
}

// View makes a path of the agent's merged view what an entry says: a file with this content, a folder, a link, or
// nothing if the entry has no kind. It replaces a file, a link or an empty folder, and follows no link there.
type View func(ctx context.Context, path string, e history.Entry, content io.Reader) error

// Review compares the upper layer of one mounted folder with the real folder. View may be nil where nothing is
// rejected. Its methods must not be called concurrently.
type Review struct {
	History *history.History // without limits, other than that of all bytes
	Key     string           // begins the keys of its trees
	Real    *os.Root
	Upper   Upper
	View    View
	Looked  time.Time // when the last look at it began, or zero
}

// Change is the difference between the real folder and what Accept would make of a path.
type Change struct {
	history.Change
	// ID stands for all that was reviewed. If the agent or somebody on the host changes
	// the path, it has another one.
	ID            string
	RenamedFrom   string // a removed file with the content of this new one
	history.Lines        // hunks without a text were not asked for, or are too much
	Merged        bool   // After has changes of both sides
	Conflict      string // both sides changed it: why it cannot be merged
	Runs          string // what may run it on the host
	Git           bool   // in a .git: never accepted without being named
	Ignored       bool   // by .gitignore: never accepted without being named
	Left          string // why Accept leaves it, or ""
}

// Changes is what a review shows.
type Changes struct {
	Changes      []Change // by path; those in a .git come last
	Ignored      int      // files that .gitignore names, without those asked for by path
	IgnoredBytes int64    // in them
}

// Pick selects a path and what is below it, or some hunks of one file. Only a path that is
// itself in a .git, or ignored, selects such files.
type Pick struct {
	Path  string
	ID    string // refuse another version than the reviewed one
	Hunks []int  // from 1
}

// Selection is what a person accepts or rejects. No picks select everything that is
// neither in a .git nor ignored.
type Selection struct {
	Picks           []Pick
	Marked          bool // also what may run on the host. Without it, that must be named
	AcceptConflicts bool // take the agent's version
	OutsideLinks    bool // take symlinks that lead out of the folder
}

// Outcome says what became of one change.
type Outcome struct {
	Path   string
	Merged bool
	Reason string // why it was left
}

// Report lists what was done, and what was left and why.
type Report struct{ Done, Left []Outcome }
