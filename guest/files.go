package guest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/printable"
)

// fileTimeout bounds a call that does not transfer a file's content.
const fileTimeout = 30 * time.Second

// StatFile implements engine.Files.
func (c room) StatFile(ctx context.Context, f engine.File) (engine.FileInfo, error) {
	a, err := callFile(ctx, c, "look at", f, c.files.Stat, &guestpb.StatFileRequest{File: filePath(f)})
	return fileInfo(a.GetInfo()), err
}

// ListFolder implements engine.Files.
func (c room) ListFolder(ctx context.Context, f engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	a, err := callFile(ctx, c, "list", f, c.files.List, &guestpb.ListFolderRequest{Folder: filePath(f), Limit: uint32(limit)})
	if err != nil {
		return nil, false, err
	}
	for _, e := range a.Entries[:min(len(a.Entries), engine.MaxFolderEntries)] {
		list = append(list, engine.FolderEntry{FileInfo: fileInfo(e.Info), Name: clipPath(e.Name), Target: clipPath(e.Target)})
	}
	return list, a.Truncated, nil
}

// ReadFile implements engine.Files.
func (c room) ReadFile(ctx context.Context, f engine.File, part engine.FilePart, to io.Writer) (engine.FileRead, error) {
	const op = "read"
	m := &guestpb.ReadFileRequest{
		File: filePath(f), Offset: part.Offset, Limit: part.Limit, FirstLine: part.FirstLine, Lines: part.Lines, LastLines: part.LastLines,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Read(inRoomOf(ctx, c.user), m)
	if err != nil {
		return engine.FileRead{}, c.fileFault(ctx, f, op, err)
	}
	defer stream.Close()
	var r engine.FileRead
	var n uint64
	sum := sha256.New()
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
			return engine.FileRead{}, fault.Newf(fault.Rejected, op, f.String(), "the guest sent more than was asked for")
		}
		if _, err := to.Write(m.Data); err != nil {
			return engine.FileRead{}, fault.Wrap(op, f.String(), err)
		}
		sum.Write(m.Data)
		r.Truncated = m.Truncated
	}
	if err := stream.Err(); err != nil {
		return engine.FileRead{}, c.fileFault(ctx, f, op, err)
	}
	if all := part.Offset == 0 && part.FirstLine == 0 && part.LastLines == 0 && part.Lines == 0 && !r.Truncated; all {
		r.SHA256 = sum.Sum(nil)
	}
	return r, nil
}

// WriteFile implements engine.Files.
func (c room) WriteFile(ctx context.Context, f engine.File, w engine.FileWrite) (engine.FileWritten, error) {
	const op = "write"
	m := &guestpb.WriteFileRequest{
		File: filePath(f), Append: w.Append, Parents: w.Parents, Mode: w.Mode, IfSha256: w.IfSHA256, IfAbsent: w.IfAbsent, Content: w.Content,
	}
	a, err := c.files.Write(inRoomOf(ctx, c.user), m)
	if err != nil {
		return engine.FileWritten{}, c.fileFault(ctx, f, op, err)
	}
	sum := sha256.Sum256(w.Content)
	return engine.FileWritten{Created: a.Created, SHA256: sum[:], Size: a.Size}, nil
}

// SearchFiles implements engine.Files.
func (c room) SearchFiles(ctx context.Context, f engine.File, s engine.FileSearch, found func(engine.FileMatch) error) (engine.SearchEnd, error) {
	const op = "search"
	m := &guestpb.SearchRequest{
		Root: filePath(f), Pattern: s.Pattern, Names: s.Names, Include: s.Include, IgnoreCase: s.IgnoreCase,
		Context: uint32(s.Context), Limit: uint32(s.Limit), LineLimit: uint32(s.LineLimit),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Search(inRoomOf(ctx, c.user), m)
	if err != nil {
		return engine.SearchEnd{}, c.fileFault(ctx, f, op, err)
	}
	defer stream.Close()
	most := engine.MaxMatches * (1 + 2*engine.MaxContext) // matches with their context lines
	for stream.Receive() {
		a := stream.Msg()
		if most -= len(a.Matches); most < 0 {
			return engine.SearchEnd{}, fault.Newf(fault.Rejected, op, f.String(), "the guest sent too many matches")
		}
		for _, m := range a.Matches {
			match := engine.FileMatch{Path: clipPath(m.Path), Line: m.Line, Text: bytes.Clone(m.Text[:min(len(m.Text), engine.MaxMatchLine)]), Clipped: m.Clipped, Context: m.Context}
			if err := found(match); err != nil {
				return engine.SearchEnd{}, err
			}
		}
		if a.End != nil {
			return engine.SearchEnd{Truncated: a.End.Truncated, Files: a.End.Files, Unreadable: a.End.Unreadable}, nil
		}
	}
	return engine.SearchEnd{}, c.fileFault(ctx, f, op, errors.Join(errors.New("the guest ended the search without a result"), stream.Err()))
}

// fileFault returns the error of a call about a file. An error of the guest
// names the file already.
func (c room) fileFault(ctx context.Context, f engine.File, op string, err error) error {
	if faultrpc.Answered(err) {
		return protocol.Decode("", "", err)
	}
	return c.fault(ctx, op, f.String(), err)
}

func filePath(f engine.File) *guestpb.FilePath {
	return &guestpb.FilePath{Root: []byte(f.Root), Path: []byte(f.Path)}
}

// callFile makes a call about a file that answers at once.
func callFile[Q, R any](ctx context.Context, c room, op string, f engine.File, call func(context.Context, *Q) (*R, error), q *Q) (*R, error) {
	limit, cancel := context.WithTimeoutCause(ctx, fileTimeout, ErrSilent)
	defer cancel()
	r, err := call(inRoomOf(limit, c.user), q)
	if err != nil {
		return nil, c.fileFault(limit, f, op, err)
	}
	return r, nil
}

func fileInfo(i *guestpb.FileInfo) engine.FileInfo {
	return engine.FileInfo{Kind: cmp.Or(engine.FileKind(printable.Clip(i.GetKind())), engine.OtherFile), Size: i.GetSize(), Mode: i.GetMode() & 0o7777, Modified: time.Unix(0, i.GetModifiedUnixNano())}
}
