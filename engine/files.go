package engine

import (
	"path"
	"time"
)

// Limits of searches and folder lists.
const (
	MaxMatches       = 5000 // matches of a search
	MaxContext       = 50   // lines around each match
	MaxMatchLine     = 4096 // bytes shown of a line
	MaxFolderEntries = 2000 // fits into one message even with the longest names

	MaxFileWrite = 16 << 20 // bytes of content
)

// File names a file of a room. Path is below Root; a link that leads out of
// Root is refused.
type File struct {
	Root string // absolute
	Path string // relative; "." is the root
}

// FileKind is the kind of a file.
type FileKind string

const (
	RegularFile FileKind = "file"
	Folder      FileKind = "folder"
	Link        FileKind = "link" // only in lists
	OtherFile   FileKind = "other"
)

// FileInfo describes a file.
type FileInfo struct {
	Kind     FileKind
	Size     uint64
	Mode     uint32 // permissions
	Modified time.Time
}

// FolderEntry is an entry of a folder.
type FolderEntry struct {
	FileInfo
	Name   string
	Target string // of a link
}

// FilePart is the part of a file to read: from Offset, from FirstLine (the first is 1), or
// the last lines. The zero value is all of it.
type FilePart struct {
	Offset    uint64 // bytes
	FirstLine uint64
	LastLines uint64
	Lines     uint64 // limit, except with LastLines; 0 is none
	Limit     uint64 // bytes; 0 is no limit
	OrNothing bool   // read nothing of a file that is larger than Limit
}

// FileRead describes what was read.
type FileRead struct {
	Info      FileInfo
	Offset    uint64 // where in the file it begins
	Truncated bool   // a limit left something out, or all
	SHA256    []byte // of the file, if all of it was read
}

// FileWrite describes what to write.
type FileWrite struct {
	Append   bool
	Parents  bool   // create missing folders
	Mode     uint32 // of a new file; 0 is 0644
	IfSHA256 []byte // only if the file has this content now; Rejected if not
	IfAbsent bool   // only if there is none; Rejected if there is
	Content  []byte // at most MaxFileWrite
}

// FileWritten describes what was written.
type FileWritten struct {
	Created bool
	SHA256  []byte // of the content
	Size    uint64 // of the file
}

// FileSearch describes a search.
type FileSearch struct {
	Pattern    string // a regular expression, or with Names a glob or a part of a name
	Names      bool
	Include    string // glob of files to search
	IgnoreCase bool
	Context    int
	Limit      int // matches; 0 is MaxMatches
	LineLimit  int // bytes of a line; 0 is MaxMatchLine
}

// FileMatch is a matching line, or with Names a file.
type FileMatch struct {
	Path    string // relative to the searched path; "" is that path
	Line    uint64
	Text    []byte
	Clipped bool
	Context bool // a line around a match
}

// SearchEnd describes the end of a search.
type SearchEnd struct {
	Truncated         bool
	Files, Unreadable uint64
}

// String returns the path for people.
func (f File) String() string { return path.Join(f.Root, f.Path) }
