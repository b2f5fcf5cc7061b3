package tools

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxListed is how many names of a folder are shown.
	maxListed = 500
	// fileTime is the budget of file tools on a busy guest.
	fileTime = time.Minute
)

type readIn struct {
	Path      string `json:"path" jsonschema:"a file, or a folder to list; relative to your home folder" limit:"minlen=1"`
	StartLine int    `json:"start_line,omitempty" jsonschema:"the first line to read; 1 is the first of the file" limit:"min=1"`
	LineCount int    `json:"line_count,omitempty" jsonschema:"with start_line or offset: how many lines" limit:"min=1"`
	TailLines int    `json:"tail_lines,omitempty" jsonschema:"instead: how many of the last lines" limit:"min=1"`
	Offset    int    `json:"offset,omitempty" jsonschema:"instead: from this byte on, as next_offset says" limit:"min=0"`
	// The default is a few pages; next_offset leads to the rest.
	MaxChars int `json:"max_chars,omitempty" jsonschema:"maximum characters to return" limit:"min=1,max=100000,default=15000"`
}

type readOut struct {
	Kind      string `json:"kind" jsonschema:"file, binary or listing"`
	Path      string `json:"path"`
	Content   string `json:"content,omitzero"`
	Size      int    `json:"size" jsonschema:"characters of content; of a binary file, its bytes"`
	FileSize  uint64 `json:"file_size,omitempty" jsonschema:"bytes of the whole file"`
	StartLine int    `json:"start_line,omitempty"`
	LineCount int    `json:"line_count,omitempty" jsonschema:"lines in content"`
	TailLines int    `json:"tail_lines,omitempty"`
	Offset    int    `json:"offset,omitempty"`
	MaxChars  int    `json:"max_chars,omitempty"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"there is more; next says how to get it"`
	Next      string `json:"next,omitempty"`
	// Reading on from here skips nothing, however long the file is.
	NextOffset uint64 `json:"next_offset,omitempty" jsonschema:"where the rest begins"`
	SHA256     string `json:"sha256,omitempty" jsonschema:"of the whole file, if all of it was read"`

	Entries    []listed `json:"entries,omitempty"`
	EntryCount int      `json:"entry_count,omitempty"`
}

type listed struct {
	Name string `json:"name"`
	Type string `json:"type" jsonschema:"file, folder, link or other"`
	Size uint64 `json:"size,omitempty"`
	To   string `json:"to,omitempty" jsonschema:"where a link leads"`
}

// newRead makes sandbox_read_file.
func newRead(rooms Rooms) Tool {
	return inRoom(rooms, Spec{
		Name: "sandbox_read_file", Title: "Read a file", Lean: true, Budget: fileTime + bootTime,
		Hints: Hints{ReadOnly: true, Idempotent: true},
		Description: `Read a text file in your sandbox: all of it, a range of lines (start_line, line_count), its end (tail_lines), or from a byte on (offset). A folder is listed. ` +
			`Long files are cut at max_chars, and next says how to go on.`,
	}, func(ctx context.Context, c *Call, in readIn) (readOut, error) {
		p, err := c.path(in.Path)
		if err != nil {
			return readOut{}, err
		}
		info, err := c.room.StatFile(ctx, p.file())
		if err != nil {
			return readOut{}, c.missing(ctx, p, err)
		}
		if info.Kind == engine.Folder {
			return list(ctx, c, p)
		}
		return readLines(ctx, c, p, in)
	})
}

func list(ctx context.Context, c *Call, p Path) (readOut, error) {
	entries, more, err := c.room.ListFolder(ctx, p.file(), maxListed)
	if err != nil {
		return readOut{}, aboutPath(err)
	}
	out := readOut{Kind: "listing", Path: p.String(), EntryCount: len(entries), Truncated: more}
	for _, e := range entries {
		entry := listed{Name: strings.ToValidUTF8(e.Name, "\uFFFD"), Type: string(e.Kind), To: strings.ToValidUTF8(e.Target, "\uFFFD")}
		if e.Kind == engine.RegularFile { // file systems differ in the size of folders
			entry.Size = e.Size
		}
		out.Entries = append(out.Entries, entry)
	}
	if more {
		out.Next = "call sandbox_search_files with target files and a pattern: the folder has more names than are listed"
	}
	return out, nil
}

func readLines(ctx context.Context, c *Call, p Path, in readIn) (readOut, error) {
	in.oneWay(c)
	part := engine.FilePart{
		Offset: uint64(in.Offset), FirstLine: uint64(in.StartLine), Lines: uint64(in.LineCount), LastLines: uint64(in.TailLines),
		Limit: bytesFor(in.MaxChars),
	}
	var b bytes.Buffer
	r, err := c.room.ReadFile(ctx, p.file(), part, &b)
	if err != nil {
		return readOut{}, aboutPath(err)
	}
	if r.Info.Kind != engine.RegularFile {
		return readOut{}, &Failure{Kind: fault.Rejected, Field: "path", Expected: "a regular file, or a folder", Message: p.String() + " is not a regular file"}
	}
	out := readOut{Kind: "file", Path: p.String(), FileSize: r.Info.Size, SHA256: digestText(r.SHA256), StartLine: in.StartLine, TailLines: in.TailLines, Offset: in.Offset, MaxChars: in.MaxChars}
	if binary(b.Bytes()) {
		out.Kind, out.Size = "binary", int(r.Info.Size)
		c.Warn("the file is not text: look at it with a program in sandbox_exec (file, xxd), or share it with share_artifact")
		return out, nil
	}
	text, cut := cutChars(b.String(), in.MaxChars)
	cut = cut || r.Truncated
	out.Content = strings.ToValidUTF8(text, "\uFFFD")
	out.Size, out.LineCount = utf8.RuneCountInString(out.Content), countLines(out.Content)
	if next := r.Offset + uint64(len(text)); cut || next < r.Info.Size && text != "" {
		out.NextOffset = next
	}
	switch {
	case cut:
		out.Truncated = true
		out.Next = fmt.Sprintf("call again with offset %d", out.NextOffset)
		if whole := strings.Count(text, "\n"); whole > 0 && in.TailLines == 0 && in.Offset == 0 {
			out.Next += fmt.Sprintf(", or for whole lines with start_line %d", max(in.StartLine, 1)+whole)
		}
	case out.Content != "":
	case in.StartLine > 1:
		c.Warn("the file has fewer than %d lines: tail_lines shows its end", in.StartLine)
	case in.Offset > 0:
		c.Warn("the file has no more than %d bytes: tail_lines shows its end", r.Info.Size)
	}
	return out, nil
}

// oneWay resolves arguments that select the part twice. A model that continues at an offset may
// repeat the arguments of its last call.
func (in *readIn) oneWay(c *Call) {
	drop := func(counts, name string, value *int) {
		if *value > 0 {
			c.Warn("%s counts, and %s does not", counts, name)
			*value = 0
		}
	}
	switch {
	case in.Offset > 0:
		drop("offset", "start_line", &in.StartLine)
		drop("offset", "tail_lines", &in.TailLines)
	case in.TailLines > 0:
		drop("tail_lines", "start_line", &in.StartLine)
		drop("tail_lines", "line_count", &in.LineCount)
	}
}

// cutChars cuts a text to limit characters. A byte of invalid UTF-8 counts as one.
func cutChars(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	n := 0
	for at := range text {
		if n == limit {
			return text[:at], true
		}
		n++
	}
	return text, false
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}
