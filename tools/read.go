package tools

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest"
)

const (
	// maxListed is how many names of a folder are shown.
	maxListed = 500
	// fileTime is how long a call about files may take on a busy guest.
	fileTime = time.Minute
)

type readIn struct {
	Path      string `json:"path" jsonschema:"a file, or a folder to list; relative to your home folder" limit:"minlen=1"`
	StartLine int    `json:"start_line,omitempty" jsonschema:"the first line to read; 1 is the first of the file" limit:"min=1"`
	LineCount int    `json:"line_count,omitempty" jsonschema:"with start_line: how many lines" limit:"min=1"`
	TailLines int    `json:"tail_lines,omitempty" jsonschema:"instead: the last so many lines" limit:"min=1"`
	// By default a few pages, with a way to the rest.
	MaxChars int `json:"max_chars,omitempty" jsonschema:"the most characters to answer" limit:"min=1,max=100000,default=15000"`
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
	MaxChars  int    `json:"max_chars,omitempty"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"there is more; next says how to get it"`
	Next      string `json:"next,omitempty"`
	SHA256    string `json:"sha256,omitempty" jsonschema:"of the whole file, if all of it was read"`

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
func newRead(files Files) Tool {
	return Define(Spec{
		Name: "sandbox_read_file", Title: "Read a file", Lean: true, Budget: fileTime + bootTime,
		Hints: Hints{ReadOnly: true, Idempotent: true},
		Description: `Read a text file in your sandbox: all of it, a range of lines (start_line, line_count) or its end (tail_lines). A folder is listed. ` +
			`Long files are cut at max_chars, and next says how to go on.`,
	}, func(ctx context.Context, c *Call, in readIn) (readOut, error) {
		p, err := c.path("path", in.Path)
		if err != nil {
			return readOut{}, err
		}
		info, err := files.StatFile(ctx, c.Agent, p.file())
		if err != nil {
			return readOut{}, missing(ctx, files, c.Agent, p, err)
		}
		if info.Kind == guest.Folder {
			return list(ctx, files, c, p)
		}
		return readLines(ctx, files, c, p, in)
	})
}

func list(ctx context.Context, files Files, c *Call, p Path) (readOut, error) {
	entries, more, err := files.ListFolder(ctx, c.Agent, p.file(), maxListed)
	if err != nil {
		return readOut{}, aboutPath("path", err)
	}
	out := readOut{Kind: "listing", Path: p.String(), EntryCount: len(entries), Truncated: more}
	for _, e := range entries {
		entry := listed{Name: strings.ToValidUTF8(e.Name, "\uFFFD"), Type: string(e.Kind), To: strings.ToValidUTF8(e.Target, "\uFFFD")}
		if e.Kind == guest.RegularFile { // that of others is the file system's affair
			entry.Size = e.Size
		}
		out.Entries = append(out.Entries, entry)
	}
	if more {
		out.Next = "call sandbox_search_files with target files and a pattern: the folder has more names than are listed"
	}
	return out, nil
}

func readLines(ctx context.Context, files Files, c *Call, p Path, in readIn) (readOut, error) {
	if in.TailLines > 0 && in.StartLine > 0 {
		c.Warn("tail_lines counts, and start_line does not")
		in.StartLine = 0
	}
	if in.LineCount > 0 && in.TailLines == 0 {
		in.StartLine = max(in.StartLine, 1)
	}
	part := guest.FilePart{Limit: bytesFor(in.MaxChars) + 1}
	switch {
	case in.TailLines > 0:
		part.LastLines = uint64(in.TailLines)
	case in.StartLine > 0:
		part.FirstLine, part.Lines = uint64(in.StartLine), uint64(in.LineCount)
	}
	var b bytes.Buffer
	r, err := files.ReadFile(ctx, c.Agent, p.file(), part, &b)
	if err != nil {
		return readOut{}, aboutPath("path", err)
	}
	if r.Info.Kind != guest.RegularFile {
		return readOut{}, &Failure{Kind: fault.Rejected, Field: "path", Expected: "a regular file, or a folder", Message: p.String() + " is no regular file"}
	}
	out := readOut{Kind: "file", Path: p.String(), FileSize: r.Info.Size, SHA256: digestText(r.SHA256), StartLine: in.StartLine, TailLines: in.TailLines, MaxChars: in.MaxChars}
	if binary(b.Bytes()) {
		out.Kind, out.Size = "binary", int(r.Info.Size)
		c.Warn("the file is no text: look at it with a program in sandbox_exec (file, xxd), or share it with share_artifact")
		return out, nil
	}
	text := strings.ToValidUTF8(b.String(), "\uFFFD")
	out.Content, out.Truncated = cutChars(text, in.MaxChars)
	out.Truncated = out.Truncated || r.Truncated
	out.Size = utf8.RuneCountInString(out.Content)
	out.LineCount = countLines(out.Content)
	switch {
	case in.StartLine > 1 && out.Content == "":
		c.Warn("the file has fewer than %d lines: tail_lines shows its end", in.StartLine)
	case !out.Truncated:
	case in.TailLines > 0:
		out.Next = "ask for fewer tail_lines, or for more max_chars"
	case out.LineCount <= 1:
		out.Next = "the line is longer than max_chars: ask for up to 100000, or look at it with a program in sandbox_exec (cut -c)"
	default:
		first := max(in.StartLine, 1)
		whole := strings.Count(out.Content, "\n")
		out.Next = fmt.Sprintf("call again with start_line %d", first+whole)
	}
	return out, nil
}

// cutChars is the beginning of a text, of at most so many characters.
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
