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
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// fileTimeout bounds a call about a file, on a disk that may be slow. Reading and searching may take longer.
const fileTimeout = time.Minute

// file directs a call about files to the room.
func (c room) file(ctx context.Context) context.Context {
	return within(context.WithValue(ctx, roomOf{}, c.user), fileTimeout)
}

// StatFile implements engine.Files.
func (c room) StatFile(ctx context.Context, f engine.File) (engine.FileInfo, error) {
	a, err := c.files.Stat(c.file(ctx), &guestpb.StatFileRequest{File: filePath(f)})
	return fileInfo(a.GetInfo()), err
}

// ListFolder implements engine.Files.
func (c room) ListFolder(ctx context.Context, f engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	a, err := c.files.List(c.file(ctx), &guestpb.ListFolderRequest{Folder: filePath(f), Limit: uint32(limit)})
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
	m := &guestpb.ReadFileRequest{
		File: filePath(f), Offset: part.Offset, Limit: part.Limit, FirstLine: part.FirstLine, Lines: part.Lines, LastLines: part.LastLines,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Read(c.file(ctx), m)
	if err != nil {
		return engine.FileRead{}, c.fault(ctx, err)
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
			return engine.FileRead{}, fault.Newf(fault.Rejected, "read", f.String(), "the guest sent more than was asked for")
		}
		if _, err := to.Write(m.Data); err != nil {
			return engine.FileRead{}, fault.Wrap("read", f.String(), err)
		}
		sum.Write(m.Data)
		r.Truncated = m.Truncated
	}
	if err := stream.Err(); err != nil {
		return engine.FileRead{}, c.fault(ctx, err)
	}
	if all := part.Offset == 0 && part.FirstLine == 0 && part.LastLines == 0 && part.Lines == 0 && !r.Truncated; all {
		r.SHA256 = sum.Sum(nil)
	}
	return r, nil
}

// WriteFile implements engine.Files.
func (c room) WriteFile(ctx context.Context, f engine.File, w engine.FileWrite) (engine.FileWritten, error) {
	if len(w.Content) > engine.MaxFileWrite {
		return engine.FileWritten{}, fault.Newf(fault.InvalidArgs, "write", f.String(), "%d bytes are more than %d MiB", len(w.Content), engine.MaxFileWrite>>20).Advise("Write it in parts, or with a program.")
	}
	m := &guestpb.WriteFileRequest{
		File: filePath(f), Append: w.Append, Parents: w.Parents, Mode: w.Mode, IfSha256: w.IfSHA256, IfAbsent: w.IfAbsent, Content: w.Content,
	}
	a, err := c.files.Write(c.file(ctx), m)
	if err != nil {
		return engine.FileWritten{}, err
	}
	sum := sha256.Sum256(w.Content)
	return engine.FileWritten{Created: a.Created, SHA256: sum[:], Size: a.Size}, nil
}

// SearchFiles implements engine.Files.
func (c room) SearchFiles(ctx context.Context, f engine.File, s engine.FileSearch, found func(engine.FileMatch) error) (engine.SearchEnd, error) {
	m := &guestpb.SearchRequest{
		Root: filePath(f), Pattern: s.Pattern, Names: s.Names, Include: s.Include, IgnoreCase: s.IgnoreCase,
		Context: uint32(s.Context), Limit: uint32(s.Limit), LineLimit: uint32(s.LineLimit),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Search(c.file(ctx), m)
	if err != nil {
		return engine.SearchEnd{}, c.fault(ctx, err)
	}
	defer stream.Close()
	most := engine.MaxMatches * (1 + 2*engine.MaxContext) // matches with their context lines
	for stream.Receive() {
		a := stream.Msg()
		if most -= len(a.Matches); most < 0 {
			return engine.SearchEnd{}, fault.Newf(fault.Rejected, "search", f.String(), "the guest sent too many matches")
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
	return engine.SearchEnd{}, c.fault(ctx, errors.Join(errors.New("the guest ended the search without a result"), stream.Err()))
}

func filePath(f engine.File) *guestpb.FilePath {
	return &guestpb.FilePath{Root: []byte(f.Root), Path: []byte(f.Path)}
}

func fileInfo(i *guestpb.FileInfo) engine.FileInfo {
	return engine.FileInfo{Kind: cmp.Or(engine.FileKind(printable.Clip(i.GetKind())), engine.OtherFile), Size: i.GetSize(), Mode: i.GetMode() & 0o7777, Modified: time.Unix(0, i.GetModifiedUnixNano())}
}
