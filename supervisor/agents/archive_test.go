package agents_test

import (
	"archive/tar"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
)

// listing describes all files of a folder.
func listing(t testing.TB, dir string) (list []string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = clone.Walk(context.Background(), root, func(n clone.Node) error {
		line := strings.Join([]string{n.Path, n.Mode().String(), n.Target, n.Link}, "|")
		if n.Mode().IsRegular() {
			b, err := []byte("large"), error(nil)
			if n.Size() < 1<<20 {
				b, err = os.ReadFile(filepath.Join(dir, n.Path))
			}
			if err != nil {
				return err
			}
			line += "|" + string(b) + "|" + n.ModTime().UTC().Truncate(1e9).String()
		}
		list = append(list, line)
		return nil
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
	_, err := w.Set(t.Context(), "alice", map[string]string{"limits.processes": "77", "network": "allow", "network.rules": "allow localhost:80"}, by)
	w.must(err)
	home := w.home.AgentHome("alice")
	at := func(name string) string { return filepath.Join(home, name) }
	w.must(os.MkdirAll(at("deep/er"), 0o755))
	w.must(os.WriteFile(at("deep/a\nname \xff"), []byte("content"), 0o754))
	w.must(os.Link(at("deep/a\nname \xff"), at("link")))
	w.must(os.Symlink("/etc/passwd", at("out")))
	w.must(os.Mkdir(at("shut"), 0o500))
	w.must(os.WriteFile(at("zeros"), make([]byte, 100<<10), 0o600))
	attributes := unix.Setxattr(at("zeros"), "user.note", []byte("x"), 0)
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
	for _, network := range []bool{false, true} {
		name := map[bool]string{false: "", true: "carol"}[network]
		got, err := other.Import(t.Context(), agents.Import{Name: name, Network: network}, bytes.NewReader(archive.Bytes()), by)
		other.must(err)
		if string(got.Name) != map[bool]string{false: "alice", true: "carol"}[network] || got.Folder != got.Name || got.Settings.Limits.Processes != 77 ||
			(got.Settings.Network == config.NetworkAllow) != network || (len(got.Settings.NetworkRules) > 0) != network {
			t.Errorf("imported %+v", got)
		}
		arrived := other.home.AgentHome(got.Name)
		if a, b := listing(t, home), listing(t, arrived); !slices.Equal(a, b) {
			t.Errorf("it has\n%q\nwant\n%q", b, a)
		}
		info, err := os.Stat(filepath.Join(arrived, "sparse"))
		other.must(err)
		last := make([]byte, 3)
		f, err := os.Open(filepath.Join(arrived, "sparse"))
		other.must(err)
		_, err = f.ReadAt(last, size-3)
		other.must(errors.Join(err, f.Close()))
		if info.Size() != size || clone.Allocated(info) > 1<<20 || string(last) != "end" {
			t.Errorf("the sparse file has %d bytes, takes %d and ends with %q", info.Size(), clone.Allocated(info), last)
		}
		if value := make([]byte, 9); attributes == nil {
			if n, err := unix.Getxattr(filepath.Join(arrived, "zeros"), "user.note", value); err != nil || string(value[:n]) != "x" {
				t.Errorf("attribute %q, %v", value, err)
			}
		}
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
	for _, n := range []int{0, 10, archive.Len() / 2, archive.Len() - 5} {
		_, err = other.Import(t.Context(), agents.Import{Name: "dora"}, bytes.NewReader(archive.Bytes()[:n]), by)
		other.want(err, fault.Rejected)
	}
	if names := other.homesThere(); !slices.Equal(names, []string{"alice", "carol"}) {
		t.Errorf("there are the folders %q", names)
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

const goodCard = `{"format": 1, "name": "mallory", "settings": {}}`

// archived makes an archive. Entries have content as regular files.
func archived(t testing.TB, list ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range list {
		content := h.Uname // as good a place as any
		h.Uname, h.Mode, h.Format = "", 0o644, tar.FormatPAX
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func hostile(t testing.TB) map[string][]byte {
	card, end, home := tar.Header{Name: "card.json", Uname: goodCard}, tar.Header{Name: "end"}, tar.Header{Name: "home", Typeflag: tar.TypeDir}
	sparse := func(size, content string) tar.Header {
		return tar.Header{Name: "home/f", Uname: content, PAXRecords: map[string]string{"SCHILY.xattr.osaurus.sparse": size}}
	}
	one := "\x01\x00\x00\x00"
	n := func(b byte) string { return string([]byte{b, 0, 0, 0, 0, 0, 0, 0}) }
	with := func(list ...tar.Header) []byte {
		return archived(t, append(append([]tar.Header{card, home}, list...), end)...)
	}
	return map[string][]byte{
		"nothing":                archived(t),
		"no card":                archived(t, home, end),
		"a card that is a link":  archived(t, tar.Header{Name: "card.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, home, end),
		"a card that is no JSON": archived(t, tar.Header{Name: "card.json", Uname: "{"}, home, end),
		"another format":         archived(t, tar.Header{Name: "card.json", Uname: `{"format": 2, "name": "mallory"}`}, home, end),
		"wrong settings":         archived(t, tar.Header{Name: "card.json", Uname: `{"format": 1, "name": "mallory", "settings": {"limits": {"processes": -1}}}`}, home, end),
		"no end":                 archived(t, card, home),
		"more after the end":     archived(t, card, home, end, tar.Header{Name: "home/f"}),
		"out by dots":            with(tar.Header{Name: "home/../../f"}),
		"absolute":               with(tar.Header{Name: "/tmp/f"}),
		"beside the home":        with(tar.Header{Name: "homes/f"}),
		"through a link":         with(tar.Header{Name: "home/l", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, tar.Header{Name: "home/l/f"}),
		"home is a link":         archived(t, card, tar.Header{Name: "home", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, end),
		"home is a file":         archived(t, card, tar.Header{Name: "home"}, end),
		"a device":               with(tar.Header{Name: "home/dev", Typeflag: tar.TypeChar}),
		"a hard link to a card":  with(tar.Header{Name: "home/l", Typeflag: tar.TypeLink, Linkname: "card.json"}),
		"a hard link out":        with(tar.Header{Name: "home/l", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}),
		"a hard link to a link":  with(tar.Header{Name: "home/l", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, tar.Header{Name: "home/m", Typeflag: tar.TypeLink, Linkname: "home/l"}),
		"two of a name":          with(tar.Header{Name: "home/f"}, tar.Header{Name: "home/f"}),
		"a size below zero":      with(sparse("-1", one+n(0)+n(1)+"x")),
		"an enormous size":       with(sparse("9223372036854775807", one+n(0)+n(1)+"x")),
		"no list":                with(sparse("9", "")),
		"a list that is cut off": with(sparse("9", one+n(0))),
		"too many extents":       with(sparse("9", "\xff\xff\xff\xff")),
		"an extent beyond":       with(sparse("9", one+n(9)+n(1)+"x")),
		"an extent without data": with(sparse("9", one+n(0)+n(2)+"x")),
		"data without an extent": with(sparse("9", one+n(0)+n(1)+"xx")),
		"extents that overlap":   with(sparse("9", "\x02\x00\x00\x00"+n(2)+n(1)+n(2)+n(1)+"xx")),
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
	// Links in it point where they like: only the guest follows them.
	good := archived(t, tar.Header{Name: "card.json", Uname: goodCard}, tar.Header{Name: "home", Typeflag: tar.TypeDir},
		tar.Header{Name: "home/l", Typeflag: tar.TypeSymlink, Linkname: "../../../x"}, tar.Header{Name: "home/p", Typeflag: tar.TypeFifo}, tar.Header{Name: "end"})
	got, err := w.Import(t.Context(), agents.Import{}, bytes.NewReader(good), by)
	w.must(err)
	if target, err := os.Readlink(filepath.Join(w.home.AgentHome(got.Name), "l")); target != "../../../x" || err != nil {
		t.Errorf("the link points to %q, %v", target, err)
	}
}

// TestImportAfterCrash removes a home whose agent was not made, and gives one its name that was.
func TestImportAfterCrash(t *testing.T) {
	w := newWorld(t)
	a := w.create("alice")
	homes := filepath.Join(w.home.Workspace(), "agents")
	w.must(os.WriteFile(filepath.Join(homes, "alice", "file"), nil, 0o600))
	w.must(os.Rename(filepath.Join(homes, "alice"), filepath.Join(homes, ".import-done")))
	w.must(os.Mkdir(filepath.Join(homes, ".import-half"), 0o700))
	w.must(w.opened.DB.Write(t.Context(), "test", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE agents SET folder = '.import-done' WHERE uid = ?", a.UID)
		return err
	}))
	w.reopen()
	for changed := w.Changed(); ; changed = w.Changed() {
		got, err := w.Get("alice")
		w.must(err)
		if got.Folder == "alice" {
			break
		}
		<-changed
	}
	if _, err := os.Stat(filepath.Join(homes, "alice", "file")); err != nil || !slices.Equal(w.homesThere(), []string{"alice"}) {
		t.Errorf("there are %q, %v", w.homesThere(), err)
	}
}

// FuzzImport reads archives into a folder. Nothing appears beside it.
func FuzzImport(f *testing.F) {
	for _, archive := range hostile(f) {
		f.Add(archive)
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
			t.Fatal(err)
		}
		home, err := os.OpenRoot(filepath.Join(dir, "home"))
		if err != nil {
			t.Fatal(err)
		}
		defer home.Close()
		_ = agents.ReadArchive(home, bytes.NewReader(archive))
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, _ error) error {
			if e.Type()&(fs.ModeDevice|fs.ModeSetuid) != 0 {
				t.Errorf("%s is %v", p, e.Type())
			}
			return os.Chmod(dir, 0o700)
		})
	})
}
