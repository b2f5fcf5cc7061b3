package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

const (
	// fileTimeout bounds a call about a file that is not read or written.
	fileTimeout = 30 * time.Second
	// MaxMatches, MaxMatchLine, MaxContext and MaxFolderEntries are the guest's own
	// bounds.
	MaxMatches       = wire.MaxMatches
	MaxMatchLine     = wire.MaxMatchLine
	MaxContext       = wire.MaxContext
	MaxFolderEntries = wire.MaxFolderEntries
)

// File says which file of an agent is meant: Path is below Root, and stays
// there whatever links there are.
type File struct {
	User config.LinuxUser
	Root string // absolute
	Path string // relative; "." is the root
}

// FileKind is what is at a path.
type FileKind string

const (
	RegularFile FileKind = "file"
	Folder      FileKind = "folder"
	Link        FileKind = "link" // only in lists
	OtherFile   FileKind = "other"
)

// FileInfo is what the guest says of a file.
type FileInfo struct {
	Kind     FileKind
	Size     uint64
	Mode     uint32 // permissions
	Modified time.Time
}

// FolderEntry is a name in a folder.
type FolderEntry struct {
	FileInfo
	Name   string
	Target string // of a link
}

// FilePart says what of a file is to be read: from Offset on, or from FirstLine on,
// of which the first is 1, or the last lines. The zero value is all.
type FilePart struct {
	Offset    uint64 // bytes
	FirstLine uint64
	LastLines uint64
	Lines     uint64 // no more than so many, but for LastLines; 0 is no limit
	Limit     uint64 // bytes; 0 is no limit
	OrNothing bool   // nothing is read of a file that is larger than Limit
	// Characters are the most of those, beside Limit; 0 is no limit.
	Characters uint64
}

// FileRead is what was read.
type FileRead struct {
	Info      FileInfo
	Offset    uint64 // where in the file it begins
	Truncated bool   // a limit left something out, or all
	SHA256    []byte // of the file, if all of it was read
}

// FileWrite is what is to be written.
type FileWrite struct {
	Append   bool
	Parents  bool   // make folders that are not there
	Mode     uint32 // of a new file; 0 is 0644
	IfSHA256 []byte // only if the file has this content now; Rejected if not
	IfAbsent bool   // only if there is none; Rejected if there is
	Size     uint64 // of Content
	// Content may still be read for a moment when the guest has refused it, or ctx has ended.
	Content io.Reader
}

// FileWritten is what was written.
type FileWritten struct {
	Created bool
	SHA256  []byte // of the content
	Size    uint64 // of the file
}

// FileSearch is what to look for.
type FileSearch struct {
	Pattern    string // a regular expression, or with Names a glob or a part of a name
	Names      bool
	Include    string // glob of files to look into
	IgnoreCase bool
	Context    int
	Limit      int // matches; 0 is MaxMatches
	LineLimit  int // bytes of a line; 0 is MaxMatchLine
}

// FileMatch is a line, or with Names a file.
type FileMatch struct {
	Path    string // relative to where was searched; "" is that itself
	Line    uint64
	Text    []byte
	Clipped bool
	Context bool // a line around a match
}

// SearchEnd is how a search ended.
type SearchEnd struct {
	Truncated         bool
	Files, Unreadable uint64
}

// StatFile says what is at a path. It fails with NotFound, with InvalidArgs for a
// path that leads out of its root, and with Rejected for what the agent may not
// touch; so do the calls below.
func (c *Client) StatFile(ctx context.Context, f File) (FileInfo, error) {
	a, err := aboutFile(ctx, "look at", f, c.files.Stat, &guestpb.StatFileRequest{File: f.proto()})
	return fileInfo(a.GetInfo()), err
}

// ListFolder lists a folder by name, and says whether it has more than limit.
func (c *Client) ListFolder(ctx context.Context, f File, limit int) (list []FolderEntry, more bool, err error) {
	a, err := aboutFile(ctx, "list", f, c.files.List, &guestpb.ListFolderRequest{Folder: f.proto(), Limit: uint32(limit)})
	if err != nil {
		return nil, false, err
	}
	for _, e := range a.Entries[:min(len(a.Entries), MaxFolderEntries)] {
		list = append(list, FolderEntry{FileInfo: fileInfo(e.Info), Name: clipPath(e.Name), Target: clipPath(e.Target)})
	}
	return list, a.Truncated, nil
}

// ReadFile reads a file into a writer. The guest is read only as fast as that
// is written. With a limit, no more is written.
func (c *Client) ReadFile(ctx context.Context, f File, part FilePart, to io.Writer) (FileRead, error) {
	const op = "read"
	m := &guestpb.ReadFileRequest{
		File: f.proto(), Offset: part.Offset, Limit: part.Limit, FirstLine: part.FirstLine, Lines: part.Lines, LastLines: part.LastLines,
		Characters: part.Characters,
	}
	if err := wire.CheckReadFile(m); err != nil {
		return FileRead{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Read(inRoomOf(ctx, f.User), m)
	if err != nil {
		return FileRead{}, f.fault(op, err)
	}
	defer stream.Close()
	var r FileRead
	var n uint64
	sum := sha256.New() // here, where processors have instructions for it
	for stream.Receive() {
		m := stream.Msg()
		if m.Info != nil {
			r.Info, r.Offset = fileInfo(m.Info), m.Offset
			if part.OrNothing && r.Info.Size > part.Limit {
				r.Truncated = true
				return r, nil
			}
		}
		if n += uint64(len(m.Data)); part.Limit > 0 && n > part.Limit {
			return FileRead{}, fault.Newf(fault.Rejected, op, f.String(), "the guest sent more than was asked for")
		}
		if _, err := to.Write(m.Data); err != nil {
			return FileRead{}, fault.Wrap(op, f.String(), err)
		}
		sum.Write(m.Data)
		r.Truncated = m.Truncated
	}
	if err := stream.Err(); err != nil {
		return FileRead{}, f.fault(op, err)
	}
	if all := part.Offset == 0 && part.FirstLine == 0 && part.LastLines == 0 && part.Lines == 0 && !r.Truncated; all {
		r.SHA256 = sum.Sum(nil)
	}
	return r, nil
}

// WriteFile writes a file: all of it, or what was there stays.
func (c *Client) WriteFile(ctx context.Context, f File, w FileWrite) (FileWritten, error) {
	const op = "write"
	m := &guestpb.WriteFileRequest{
		File: f.proto(), Append: w.Append, Parents: w.Parents, Mode: w.Mode, IfSha256: w.IfSHA256, IfAbsent: w.IfAbsent, Size: w.Size,
	}
	if err := wire.CheckWriteFile(m); err != nil {
		return FileWritten{}, err
	}
	content := &sending{from: w.Content, left: w.Size, sum: sha256.New()}
	a, failed := c.files.Write(wire.WithContent(inRoomOf(ctx, f.User), wire.Content{Reader: content, Size: w.Size}), m)
	sum, err := content.end()
	switch {
	case err != nil: // the guest has kept what was there
		return FileWritten{}, fault.Wrap(op, f.String(), err)
	case failed != nil:
		return FileWritten{}, f.fault(op, failed)
	case sum == nil:
		return FileWritten{}, fault.Newf(fault.Rejected, op, f.String(), "the guest answered before it had all")
	}
	return FileWritten{Created: a.Created, SHA256: sum, Size: a.Size}, nil
}

// SearchFiles tells what it finds as it is found, and ends with tell's error.
func (c *Client) SearchFiles(ctx context.Context, f File, s FileSearch, tell func(FileMatch) error) (SearchEnd, error) {
	const op = "search"
	m := &guestpb.SearchRequest{
		Root: f.proto(), Pattern: s.Pattern, Include: s.Include, IgnoreCase: s.IgnoreCase,
		Context: uint32(s.Context), Limit: uint32(s.Limit), LineLimit: uint32(s.LineLimit),
	}
	if s.Names {
		m.Target = guestpb.SearchRequest_TARGET_NAMES
	}
	if err := wire.CheckSearch(m); err != nil {
		return SearchEnd{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Search(inRoomOf(ctx, f.User), m)
	if err != nil {
		return SearchEnd{}, f.fault(op, err)
	}
	defer stream.Close()
	most := MaxMatches * (1 + 2*MaxContext) // with their contexts; more is no honest guest
	for stream.Receive() {
		a := stream.Msg()
		if most -= len(a.Matches); most < 0 {
			return SearchEnd{}, fault.Newf(fault.Rejected, op, f.String(), "the guest answers without an end")
		}
		for _, m := range a.Matches {
			match := FileMatch{Path: clipPath(m.Path), Line: m.Line, Text: bytes.Clone(m.Text[:min(len(m.Text), MaxMatchLine)]), Clipped: m.Clipped, Context: m.Context}
			if err := tell(match); err != nil {
				return SearchEnd{}, err
			}
		}
		if a.End != nil {
			return SearchEnd{Truncated: a.End.Truncated, Files: a.End.Files, Unreadable: a.End.Unreadable}, nil
		}
	}
	return SearchEnd{}, f.fault(op, errors.Join(errors.New("the guest ended the search without a word"), stream.Err()))
}

// fault is the error of a call about a file. What the guest says names the file
// already.
func (f File) fault(op string, err error) error {
	if faultrpc.Answered(err) {
		return wire.Decode("", "", err)
	}
	return wire.Decode(op, f.String(), err)
}

// String is the path as a person reads it.
func (f File) String() string { return path.Join(f.Root, f.Path) }

func (f File) proto() *guestpb.FilePath {
	return &guestpb.FilePath{Root: []byte(f.Root), Path: []byte(f.Path)}
}

// aboutFile makes a call that answers at once.
func aboutFile[Q, R any](ctx context.Context, op string, f File, call func(context.Context, *Q) (*R, error), q *Q) (*R, error) {
	if err := wire.CheckFilePath(f.proto()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	r, err := call(inRoomOf(ctx, f.User), q)
	if err != nil {
		return nil, f.fault(op, err)
	}
	return r, nil
}

func fileInfo(i *guestpb.FileInfo) FileInfo {
	kinds := map[guestpb.FileInfo_Kind]FileKind{
		guestpb.FileInfo_KIND_FILE: RegularFile, guestpb.FileInfo_KIND_FOLDER: Folder, guestpb.FileInfo_KIND_LINK: Link,
	}
	kind, ok := kinds[i.GetKind()]
	if !ok {
		kind = OtherFile
	}
	return FileInfo{Kind: kind, Size: i.GetSize(), Mode: i.GetMode() & 0o7777, Modified: time.Unix(0, i.GetModifiedUnixNano())}
}
