package protocol

import (
	"bytes"
	"path"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
)

// The limits of files.
const (
	// MaxFileConns bounds the concurrent file calls of a room. Each uses a connection.
	MaxFileConns = 16
	// FileChunk is the most bytes read or written at once. It balances the cost of each call
	// against the worker's memory.
	FileChunk = 256 << 10
	// MaxTargets bounds the bytes of link targets in a folder list. Further links are listed without a target.
	MaxTargets = 400 << 10
	// MaxFileMessage bounds a message to a worker, which can hold a file's content.
	MaxFileMessage = engine.MaxFileWrite + 64<<10
	// MaxPattern bounds a search pattern.
	MaxPattern = 4096
)

// CheckFilePath validates a path. The kernel enforces that it stays below its root.
func CheckFilePath(p *guestpb.FilePath) error {
	bad := badly("check path")
	root, rel := p.GetRoot(), p.GetPath()
	switch {
	case len(root) == 0 || root[0] != '/' || path.Clean(string(root)) != string(root):
		return bad("the root is not an absolute path")
	case len(rel) == 0:
		return bad("it is empty")
	case path.IsAbs(string(rel)):
		return bad("it is absolute")
	case len(root)+1+len(rel) > MaxPath:
		return bad("it is longer than %d bytes", MaxPath)
	case bytes.IndexByte(root, 0) >= 0 || bytes.IndexByte(rel, 0) >= 0:
		return bad("it holds a NUL byte")
	}
	return nil
}

// CheckReadFile validates a read request.
func CheckReadFile(r *guestpb.ReadFileRequest) error {
	bad := badly("check what to read")
	ways := 0
	for _, is := range []bool{r.Offset > 0, r.FirstLine > 0, r.LastLines > 0} {
		if is {
			ways++
		}
	}
	switch {
	case ways > 1:
		return bad("an offset, a first line or last lines, but not two of these")
	case r.Lines > 0 && r.LastLines > 0:
		return bad("so many lines, or the last so many, but not both")
	}
	return CheckFilePath(r.File)
}

// CheckWriteFile validates a write request.
func CheckWriteFile(h *guestpb.WriteFileRequest) error {
	const digest = 32 // of SHA-256
	bad := badly("check what to write")
	switch {
	case h.Mode&^0o777 != 0:
		return bad("the mode %o has more than permissions", h.Mode)
	case len(h.IfSha256) != 0 && len(h.IfSha256) != digest:
		return bad("a digest of %d bytes", len(h.IfSha256))
	case h.IfAbsent && (h.Append || len(h.IfSha256) > 0):
		return bad("a file that is not there has neither an end nor a content")
	}
	return CheckFilePath(h.File)
}

// CheckSearch validates a search.
func CheckSearch(r *guestpb.SearchRequest) error {
	bad := badly("check search")
	switch {
	case r.Pattern == "":
		return bad("there is nothing to search for")
	case len(r.Pattern) > MaxPattern || len(r.Include) > MaxPattern:
		return bad("the pattern is longer than %d bytes", MaxPattern)
	case r.Context > engine.MaxContext:
		return bad("%d lines around each match are more than %d", r.Context, engine.MaxContext)
	}
	return CheckFilePath(r.Root)
}
