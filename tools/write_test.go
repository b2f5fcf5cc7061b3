package tools

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// aFile is a file that changes after it was read.
type aFile struct {
	engine.Room
	text, next string // next replaces text after a read
}

func (f *aFile) ReadFile(_ context.Context, _ engine.File, _ engine.FilePart, to io.Writer) (engine.FileRead, error) {
	sum := sha256.Sum256([]byte(f.text))
	_, err := io.WriteString(to, f.text)
	f.text = f.next
	return engine.FileRead{SHA256: sum[:]}, err
}

func (f *aFile) WriteFile(_ context.Context, file engine.File, w engine.FileWrite) (engine.FileWritten, error) {
	if sum := sha256.Sum256([]byte(f.text)); w.IfSHA256 != nil && string(w.IfSHA256) != string(sum[:]) {
		return engine.FileWritten{}, fault.Newf(fault.Rejected, "write", file.Path, "it was changed since it was read").Advise("Read it again.")
	}
	f.text = string(w.Content)
	return engine.FileWritten{}, nil
}

// A change is refused if somebody else has written the file since it was read.
func TestChangedSinceRead(t *testing.T) {
	for tool, args := range map[string]string{
		"sandbox_write_file": `{"path":"a.txt","content":"new\n"}`,
		"sandbox_edit_file":  `{"path":"a.txt","old_string":"old","new_string":"new"}`,
	} {
		for next, want := range map[string]string{"old\n": "new\n", "another's\n": "another's\n"} {
			f := &aFile{text: "old\n", next: next}
			rooms := func(Agent) engine.Room { return f }
			r := NewRegistry(slog.New(slog.DiscardHandler), newWrite(rooms), newEdit(rooms))
			c := alice()
			c.Home = "/home/alice"
			got := answer(t, r, c, tool, args)
			if refused := strings.Contains(got, `"kind":"rejected"`) && strings.Contains(got, "it was changed since it was read"); f.text != want || refused != (next == want) {
				t.Errorf("%s with %q: %q, and %s", tool, next, f.text, got)
			}
		}
	}
}

func TestWriteCountsBytes(t *testing.T) {
	f := &aFile{}
	c := alice()
	c.Home = "/home/alice"
	r := NewRegistry(slog.New(slog.DiscardHandler), newWrite(func(Agent) engine.Room { return f }))
	if got := answer(t, r, c, "sandbox_write_file", `{"path":"a.txt","content":"größe €\n"}`); !strings.Contains(got, `"size":12`) {
		t.Errorf("of 12 bytes: %s", got)
	}
}
