package agents_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
)

// listing describes all files of a folder.
func listing(t testing.TB, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target, _ := os.Readlink(path)
		line := strings.Join([]string{strings.TrimPrefix(path, dir), info.Mode().String(), target}, "|")
		if info.Mode().IsRegular() {
			b := []byte("large")
			if info.Size() < 1<<20 {
				b, err = os.ReadFile(path)
			}
			line += "|" + string(b) + "|" + info.ModTime().UTC().String()
		}
		list = append(list, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestExportImport moves an agent to another home.
func TestExportImport(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.create("alice")
	_, err := w.Set(t.Context(), "alice", map[string]string{"limits.processes": "77", "autonomousExec.enabled": "true", "network": "allow", "network.rules": "allow localhost:80"}, by)
	w.must(err)
	home := w.home.AgentHome("alice")
	at := func(name string) string { return filepath.Join(home, name) }
	w.must(os.MkdirAll(at("deep/er"), 0o755))
	w.must(os.WriteFile(at("deep/a\nname \xff"), []byte("content"), 0o754))
	w.must(os.MkdirAll(at(".cache/x"), 0o755)) // is left out
	w.must(os.Symlink("/etc/passwd", at("out")))
	w.must(os.WriteFile(at("empty"), nil, 0o644))
	w.must(os.Mkdir(at("shut"), 0o500))
	w.must(os.WriteFile(at("zeros"), make([]byte, 100<<10), 0o600))
	const size = 10 << 30
	w.must(os.WriteFile(at("sparse"), []byte("begin"), 0o600))
	w.must(os.Truncate(at("sparse"), size))
	f, err := os.OpenFile(at("sparse"), os.O_RDWR, 0)
	w.must(err)
	_, err = f.WriteAt([]byte("end"), size-3)
	w.must(errors.Join(err, f.Close()))

	var archive bytes.Buffer
	w.must(w.Export(t.Context(), "alice", &archive))
	if archive.Len() > 1<<20 {
		t.Errorf("the archive has %d bytes", archive.Len())
	}
	exported, err := w.Get("alice")
	w.must(err)
	for _, settings := range []bool{false, true} {
		name := map[bool]string{false: "", true: "carol"}[settings]
		got, err := other.Import(t.Context(), agents.Import{Name: name, Settings: settings}, bytes.NewReader(archive.Bytes()), by)
		other.must(err)
		if string(got.Name) != map[bool]string{false: "alice", true: "carol"}[settings] || got.Folder != got.Name ||
			!reflect.DeepEqual(got.Settings, map[bool]config.AgentSettings{false: config.AgentDefaults(), true: exported.Settings}[settings]) {
			t.Errorf("imported %+v", got)
		}
		arrived := other.home.AgentHome(got.Name)
		if a, b := slices.DeleteFunc(listing(t, home), func(line string) bool { return strings.HasPrefix(line, "/.cache") }), listing(t, arrived); !slices.Equal(a, b) {
			t.Errorf("it has\n%q\nwant\n%q", b, a)
		}
		info, err := os.Stat(filepath.Join(arrived, "sparse"))
		other.must(err)
		last := make([]byte, 3)
		f, err := os.Open(filepath.Join(arrived, "sparse"))
		other.must(err)
		_, err = f.ReadAt(last, size-3)
		other.must(errors.Join(err, f.Close()))
		if info.Size() != size || info.Sys().(*syscall.Stat_t).Blocks > 64<<20/512 || string(last) != "end" {
			t.Errorf("the sparse file has %d bytes, %+v, and ends with %q", info.Size(), info.Sys(), last)
		}
	}
	if asked := other.backend.Guest().Asked(); !slices.Contains(asked, "import room of agent-alice to agent-alice") || !slices.Contains(asked, "import room of agent-alice to agent-carol") {
		t.Errorf("asked %q", asked)
	}
	_, err = other.Import(t.Context(), agents.Import{}, bytes.NewReader(archive.Bytes()), by)
	other.want(err, fault.Rejected) // the name is taken
	_, err = other.Import(t.Context(), agents.Import{Name: "diag"}, bytes.NewReader(archive.Bytes()), by)
	other.want(err, fault.Rejected)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Import(ctx, agents.Import{Name: "dora"}, bytes.NewReader(archive.Bytes()), by); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled import: %v", err)
	}
	if err := w.Export(ctx, "alice", io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled export: %v", err)
	}
	other.backend.Guest().Refuse(fault.Newf(fault.Rejected, "import room", "", "it is a device").Advise("Do not."))
	_, err = other.Import(t.Context(), agents.Import{Name: "dora"}, bytes.NewReader(archive.Bytes()), by)
	other.want(err, fault.Rejected)
	other.backend.Guest().Refuse(nil)
	var part bytes.Buffer
	w.backend.Guest().Refuse(fault.Newf(fault.Rejected, "export room", "", "it was reset").Advise("Try again."))
	w.want(w.Export(t.Context(), "alice", &part), fault.Rejected)
	_, err = other.Import(t.Context(), agents.Import{Name: "dora"}, &part, by)
	other.want(err, fault.Rejected)
	for _, n := range []int{0, 10, archive.Len() / 2, archive.Len() - 5} {
		_, err = other.Import(t.Context(), agents.Import{Name: "dora"}, bytes.NewReader(archive.Bytes()[:n]), by)
		other.want(err, fault.Rejected)
	}
	if names := other.homesThere(); !slices.Equal(names, []string{"alice", "carol"}) {
		t.Errorf("there are the folders %q", names)
	}
	for _, h := range []config.Home{w.home, other.home} {
		if list, err := os.ReadDir(h.Transfers()); err != nil || len(list) > 0 {
			t.Errorf("left of transfers: %v, %v", list, err)
		}
	}
	w.must(os.MkdirAll(filepath.Join(w.home.Transfers(), "killed"), 0o700))
	w.reopen()
	if _, err := os.Stat(w.home.Transfers()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a killed daemon: %v", err)
	}
}

// homesThere returns the names of home folders.
func (w *world) homesThere() (names []string) {
	list, err := os.ReadDir(filepath.Join(w.home.Workspace(), "agents"))
	w.must(err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// entry is a file of a tree, as package history encodes it.
type entry struct {
	kind    byte
	mode    uint64
	size    uint64
	name    string
	content [sha256.Size]byte
}

func tree(list ...entry) (b []byte) {
	b = []byte("osaurus tree 1\n")
	for _, e := range list {
		b = append(b, e.kind)
		for _, n := range []uint64{e.mode, e.size, 0, 0, 0, uint64(len(e.name)), 0} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		b = append(append(b, e.content[:]...), e.name...)
	}
	return b
}

// archived makes an archive of a card and objects, the first of which is the tree of the home.
func archived(t testing.TB, settings string, objects ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w, `{"format": 1, "name": "mallory", "settings": %s, "home": "%x"}`+"\n", settings, sha256.Sum256(objects[0]))
	for _, o := range objects {
		_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(o))), o...))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compressed(text string) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll([]byte(text), nil)
}

func hostile(t testing.TB) map[string][]byte {
	text := []byte("text")
	sum := func(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }
	file := func(name string) entry { return entry{'f', 0o644, uint64(len(text)), name, sum(text)} }
	with := func(list ...entry) []byte { return archived(t, "{}", tree(list...), text) }
	folders := func(n int, in ...string) (objects [][]byte) { // one in another, each with so many names
		objects = [][]byte{tree()}
		for range n {
			var list []entry
			for _, name := range in {
				list = append(list, entry{kind: 'd', mode: 0o755, name: name, content: sum(objects[0])})
			}
			objects = slices.Insert(objects, 0, tree(list...))
		}
		return objects
	}
	large := make([]byte, 16<<20)
	large[0] = 1
	chunk, again := sum(large), []byte{}
	for range 1 << 17 { // 2 TiB
		again = append(again, chunk[:]...)
	}
	card := func(format int, home string) []byte {
		text, _ := json.Marshal(map[string]any{"format": format, "name": "mallory", "home": home})
		return compressed(string(text) + "\n")
	}
	return map[string][]byte{
		"another base":            compressed(`{"format": 1, "name": "mallory", "base": "sha256:other", "home": "` + strings.Repeat("1", 64) + `"}` + "\n"),
		"nothing":                 {},
		"not compressed":          []byte(`{"format": 1}` + "\n"),
		"no card":                 compressed(""),
		"a card without an end":   compressed(strings.Repeat("x", 2<<20)),
		"a card that is no JSON":  compressed("{\n"),
		"another format":          card(2, strings.Repeat("0", 64)),
		"no digest":               card(1, "../x"),
		"wrong settings":          archived(t, `{"limits": {"processes": -1}}`, tree()),
		"no tree":                 card(1, strings.Repeat("1", 64)),
		"a tree that is text":     archived(t, "{}", text),
		"a tree that is cut off":  archived(t, "{}", tree(file("f"))[:50], text),
		"a missing file":          archived(t, "{}", tree(file("f"))),
		"another file":            archived(t, "{}", tree(file("f")), []byte("texT")),
		"a missing folder":        archived(t, "{}", tree(entry{kind: 'd', mode: 0o755, name: "d", content: sum(text)})),
		"an enormous file":        with(entry{'f', 0o644, 1 << 62, "f", sum(text)}),
		"a size below zero":       with(entry{'f', 0o644, 1 << 63, "f", sum(text)}),
		"a short list of chunks":  with(entry{'f', 0o644, 32 << 20, "f", sum(text)}),
		"up":                      with(file("..")),
		"a path":                  with(file("a/b")),
		"no name":                 with(file("")),
		"two of a name":           with(file("f"), file("f")),
		"a kind that is none":     with(entry{kind: 'z', name: "f"}),
		"a mode that is none":     with(entry{'f', 1 << 31, 4, "f", sum(text)}),
		"deep folders":            archived(t, "{}", folders(300, "d")...),
		"folders without end":     archived(t, "{}", folders(64, "a", "b")...),
		"a chunk again and again": archived(t, "{}", tree(entry{'f', 0o644, 1 << 41, "f", sum(again)}), again, large),
		"an enormous object":      compressed(`{"format": 1, "name": "mallory", "home": "` + strings.Repeat("1", 64) + `"}` + "\n\xff\xff\xff\xff"),
	}
}

// TestHostileArchives imports nothing of archives that nobody exported.
func TestHostileArchives(t *testing.T) {
	w := newWorld(t)
	w.create("alice")
	for what, archive := range hostile(t) {
		_, err := w.Import(t.Context(), agents.Import{}, bytes.NewReader(archive), by)
		if fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v (%s), advice %q", what, err, fault.KindOf(err), fault.AdviceOf(err))
		}
	}
	if names := w.homesThere(); !slices.Equal(names, []string{"alice"}) || len(w.List()) != 1 {
		t.Errorf("there are %q and %v", names, w.List())
	}
	// What no checkpoint keeps is left out, and links point where they like: only the guest follows them.
	link := tree(entry{kind: 'l', size: 2, name: "l"}, entry{kind: 's', name: "pipe"})
	link = bytes.Replace(link, []byte("l"+"s"), []byte("l../../../xs"), 1)
	binary.BigEndian.PutUint64(link[len("osaurus tree 1\n")+1+6*8:], uint64(len("../../../x")))
	got, err := w.Import(t.Context(), agents.Import{}, bytes.NewReader(archived(t, "{}", link)), by)
	w.must(err)
	if target, err := os.Readlink(filepath.Join(w.home.AgentHome(got.Name), "l")); target != "../../../x" || err != nil {
		t.Errorf("the link points to %q, %v", target, err)
	}
	if list := listing(t, w.home.AgentHome(got.Name)); len(list) != 1 {
		t.Errorf("it has %q", list)
	}
}

// TestImportOnAnotherBase leaves out what needs another base, if it is told to.
func TestImportOnAnotherBase(t *testing.T) {
	w := newWorld(t)
	archive := compressed(fmt.Sprintf(`{"format": 1, "name": "alice", "base": "sha256:other", "home": "%x"}`+"\n\x00\x00\x00\x0f%sno room", sha256.Sum256(tree()), tree()))
	_, err := w.Import(t.Context(), agents.Import{}, bytes.NewReader(archive), by)
	w.want(err, fault.Rejected)
	if !strings.Contains(fault.AdviceOf(err), "--other-pack") {
		t.Error(fault.AdviceOf(err))
	}
	got, err := w.Import(t.Context(), agents.Import{OtherBase: true}, bytes.NewReader(archive), by)
	w.must(err)
	if got.Name != "alice" || slices.ContainsFunc(w.backend.Guest().Asked(), func(what string) bool { return strings.HasPrefix(what, "import") }) {
		t.Errorf("%+v, asked %q", got, w.backend.Guest().Asked())
	}
}
