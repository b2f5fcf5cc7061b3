package toolhost

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/artifacts"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store/storetest"
	"osaurus-sandbox/tools"
)

// lying is a room of a hostile guest.
type lying struct {
	engine.Room
	list func(folder string) []engine.FolderEntry
}

func (lying) StatFile(context.Context, engine.File) (engine.FileInfo, error) {
	return engine.FileInfo{Kind: engine.Folder}, nil
}

func (l lying) ListFolder(_ context.Context, f engine.File, _ int) ([]engine.FolderEntry, bool, error) {
	return l.list(f.Path), false, nil
}

func (lying) ReadFile(_ context.Context, f engine.File, _ engine.FilePart, to io.Writer) (engine.FileRead, error) {
	if strings.HasSuffix(f.Path, "broken") {
		return engine.FileRead{}, fault.New(fault.Unavailable, "read", f.Path, io.ErrUnexpectedEOF)
	}
	_, err := io.WriteString(to, "text")
	return engine.FileRead{}, err
}

func entry(kind engine.FileKind, name string) engine.FolderEntry {
	return engine.FolderEntry{FileInfo: engine.FileInfo{Kind: kind}, Name: name}
}

// named lists files with the given names.
func named(names ...string) func(string) []engine.FolderEntry {
	return func(string) (list []engine.FolderEntry) {
		for _, name := range names {
			list = append(list, entry(engine.RegularFile, name))
		}
		return list
	}
}

type unheard struct{}

func (unheard) Note(events.Event) {}

// A hostile guest's listing of a folder writes nothing outside of the artifacts, leaves no partial
// artifact, and ends.
func TestShareOfALyingGuest(t *testing.T) {
	db, who := storetest.New(t, "alice")
	home := config.Home(t.TempDir())
	kept, err := artifacts.Open(t.Context(), artifacts.Options{Home: home, DB: db, Record: unheard{}})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	call := tools.Call{Agent: tools.Agent{ID: who[0].Agent, Name: "alice", Home: "/workspace/agents/alice"}}
	call.Settings.AutonomousExec = true
	for _, tc := range []struct {
		name string
		list func(string) []engine.FolderEntry
		want string // a part of the envelope
	}{
		{"up", named("a", "../../b"), `"kind":"rejected"`},
		{"itself", named("."), `"kind":"rejected"`},
		{"above", named(".."), `"kind":"rejected"`},
		{"no name", named(""), `"kind":"rejected"`},
		{"a path", named("a/b"), `"kind":"rejected"`},
		{"a NUL", named("a\x00b"), `"kind":"rejected"`},
		{"twice", named("a", "a"), `"kind":"invalid_args"`},
		{"unseen", named("a\u200b"), `"field":"path","kind":"invalid_args"`},
		{"what cannot be read", named("a", "broken"), `"kind":"unavailable"`},
		{"too many", named(make([]string, 1001)...), `more than 1000 files`},
		{"without a bottom", func(string) []engine.FolderEntry { return []engine.FolderEntry{entry(engine.Folder, "d")} }, `more than 1000 files`},
		{"only links", func(string) []engine.FolderEntry { return []engine.FolderEntry{entry(engine.Link, "a")} }, `there is no file in`},
		{"with links", func(string) []engine.FolderEntry {
			return []engine.FolderEntry{entry(engine.Link, "a\x1b"), entry(engine.OtherFile, "p"), entry(engine.RegularFile, "f")}
		}, `"files":1,`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tools.NewRegistry(slog.New(slog.DiscardHandler), tools.Sandbox(tools.Host{Rooms: func(tools.Agent) engine.Room { return lying{list: tc.list} }, Artifacts: kept})...)
			text := r.Call(t.Context(), call, "share_artifact", json.RawMessage(`{"path":"x"}`)).Text()
			if !strings.Contains(text, tc.want) {
				t.Errorf("%s, want %s", text, tc.want)
			}
			if tc.name == "with links" {
				if !strings.Contains(text, `skipped 2 links and special files: [\"a\\x1b\" \"p\"]`) {
					t.Error(text)
				}
				return
			}
			list, err := os.ReadDir(home.Artifacts())
			if err != nil || len(list) > 0 {
				t.Errorf("there is %v, %v", list, err)
			}
		})
	}
	if list, err := os.ReadDir(string(home)); err != nil || len(list) != 1 {
		t.Errorf("in the home there is %v, %v", list, err)
	}
}
