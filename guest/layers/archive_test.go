//go:build linux

package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// elsewhere returns a store with the same base and a room of another user id that was never used.
func (w *world) elsewhere() *world {
	w.Helper()
	dir := w.TempDir()
	other := &world{T: w.T, Store: &Store{Data: filepath.Join(dir, "rooms"), Base: w.Base, Run: dir, Discard: os.RemoveAll, Own: w.Own}, point: w.point}
	w.must(os.MkdirAll(filepath.Join(other.Data, user, "work"), 0o755))
	_, err := other.Open(user, uid+1, "")
	w.must(err)
	return other
}

// TestArchive moves layers with random trees to a store with the same base.
func TestArchive(t *testing.T) {
	for seed := range uint64(8) {
		w := newWorld(t, seed)
		var known map[string]string
		for n := range 4 {
			st := w.open()
			w.with(st.Lower, st.Upper, func(root string) {
				for range 25 {
					w.change(root)
				}
				w.must(os.WriteFile(filepath.Join(root, fmt.Sprint("own", n)), []byte("own"), 0o600))
				w.must(os.Chown(filepath.Join(root, fmt.Sprint("own", n)), uid, uid))
				w.must(os.Chmod(filepath.Join(root, fmt.Sprint("own", n)), 0o755|fs.ModeSetuid))
				w.must(unix.Mkfifo(filepath.Join(root, fmt.Sprint("pipe", n)), 0o600))
				w.must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
					if err == nil && d.Type() == fs.ModeSocket { // left out
						err = os.Remove(path)
					}
					return err
				}))
				known = w.look(root)
			})
			if n < 3 {
				w.freeze(st)
				st.Add(fmt.Sprint("s", n), time.Now())
				w.must(w.Write(user, st))
			}
		}
		for path, about := range known {
			known[path] = strings.ReplaceAll(about, fmt.Sprint(" ", uid, " ", uid), fmt.Sprint(" ", uid+1, " ", uid+1))
		}
		var archive bytes.Buffer
		w.must(w.Export(user, &archive))
		other := w.elsewhere()
		w.must(other.Import(user, &archive))
		st, err := other.Read(user)
		w.must(err)
		if len(st.Lower) != 4 || other.Changed(st) {
			t.Errorf("there are the layers %+v", st)
		}
		other.with(st.Lower, "", func(root string) { w.same(fmt.Sprint(seed, " moved"), w.look(root), known) })
		st, err = other.Open(user, uid+1, "") // merges them
		w.must(err)
		if len(st.Lower) != 1 || st.Lower[0].UID() != uid+1 {
			t.Errorf("there are the layers %+v", st)
		}
		other.with(st.Lower, st.Upper, func(root string) { w.same(fmt.Sprint(seed, " merged"), w.look(root), known) })
		w.must(other.Sweep())
		if t.Failed() {
			return
		}
	}
}

// meddler calls do at the first write.
type meddler struct {
	bytes.Buffer
	do func()
}

func (m *meddler) Write(b []byte) (int, error) {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	return m.Buffer.Write(b)
}

// TestArchiveOfRunning exports what changes meanwhile: files as they are when they are read, and nothing that
// a link leads to.
func TestArchiveOfRunning(t *testing.T) {
	w := newWorld(t, 0)
	st := w.open()
	at := func(name string) string { return filepath.Join(w.Path(st.Upper), name) }
	outside := t.TempDir()
	w.must(os.WriteFile(filepath.Join(outside, "z"), []byte("secret"), 0o600))
	w.must(os.Mkdir(at("a"), 0o755))
	const size = 3 << 20
	for _, name := range []string{"a/first", "a/gone", "b", "gone", "link"} {
		w.must(os.WriteFile(at(name), bytes.Repeat([]byte("x"), size), 0o644))
	}
	out := &meddler{do: func() {
		w.must(os.Truncate(at("a/first"), size/2))
		w.must(os.Remove(at("gone")))
		w.must(os.Remove(at("a/gone")))
		w.must(os.Truncate(at("b"), 10))
		w.must(os.Remove(at("link")))
		w.must(os.Symlink(filepath.Join(outside, "z"), at("link")))
	}}
	w.must(w.Export(user, out))
	sizes := map[string]int64{}
	archive := tar.NewReader(out)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		w.must(err)
		sizes[strings.TrimPrefix(h.Name, string(st.Upper))] = h.Size
	}
	if want := fmt.Sprint(map[string]int64{"/": 0, "/a/": 0, "/a/first": size, "/b": 10, "/link": 0}); fmt.Sprint(sizes) != want {
		t.Errorf("the archive has %v, not %s", sizes, want)
	}
	w.must(os.WriteFile(at("a/first"), bytes.Repeat([]byte("x"), size), 0o644))
	w.must(os.WriteFile(at("a/z"), nil, 0o644))
	swap := &meddler{do: func() {
		w.must(os.Rename(at("a"), at("c")))
		w.must(os.Symlink(outside, at("a")))
	}}
	if err := w.Export(user, swap); err == nil || strings.Contains(swap.String(), "secret") {
		t.Errorf("a folder that became a link out: %v", err)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { // a name that is now this, now that
		defer close(ended)
		for {
			for _, replace := range []func() error{
				func() error { return os.WriteFile(at("new"), nil, 0o600) },
				func() error { return os.Symlink(outside, at("new")) },
				func() error { return unix.Mknod(at("new"), unix.S_IFCHR, 0) },
			} {
				select {
				case <-over:
					return
				default:
					_ = errors.Join(replace(), os.Rename(at("new"), at("gone")))
				}
			}
		}
	}()
	w.must(os.RemoveAll(at("c")))
	w.must(os.Remove(at("a")))
	for range 2000 {
		if err := w.Export(user, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	<-ended
	reset := &meddler{do: func() { w.must(os.RemoveAll(w.Path(st.Upper))) }}
	w.must(os.WriteFile(at("a"), make([]byte, size), 0o644))
	if err := w.Export(user, reset); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a room that was reset: %v", err)
	}
}

// TestHostileArchives imports what nobody exported.
func TestHostileArchives(t *testing.T) {
	w := newWorld(t, 0)
	outside := t.TempDir()
	w.must(os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o600))
	top := tar.Header{Typeflag: tar.TypeDir, Name: "1-a/"}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	link := func(kind byte, name, target string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: target}
	}
	with := func(attribute string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: "1-a/f", PAXRecords: map[string]string{attributePrefix + attribute: "y"}}
	}
	up := strings.Repeat("../", 20)
	many := []tar.Header{}
	for n := range maxLower + 2 {
		many = append(many, tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("%d-a/", n)})
	}
	for what, headers := range map[string][]tar.Header{
		"no layer":                 {file("f/f")},
		"up":                       {top, file("1-a/../f")},
		"up and down":              {top, file("1-a/d/../../f")},
		"an absolute name":         {top, file("1-a//" + outside + "/g")},
		"the layer itself":         {top, file("1-a/.")},
		"another layer":            {top, file("2-b/f")},
		"no folder":                {top, file("1-a/d/f")},
		"twice":                    {top, file("1-a/f"), file("1-a/f")},
		"through a link":           {top, link(tar.TypeSymlink, "1-a/l", outside), file("1-a/l/g")},
		"through a link up":        {top, link(tar.TypeSymlink, "1-a/l", up+outside), file("1-a/l/g")},
		"over a link":              {top, link(tar.TypeSymlink, "1-a/l", outside+"/g"), file("1-a/l")},
		"a folder over a link":     {top, link(tar.TypeSymlink, "1-a/l", outside), {Typeflag: tar.TypeDir, Name: "1-a/l/", Mode: 0o777}},
		"a hard link up":           {top, link(tar.TypeLink, "1-a/l", "1-a/"+up+outside+"/f")},
		"an absolute hard link":    {top, link(tar.TypeLink, "1-a/l", "1-a/"+outside+"/f")},
		"a hard link to nothing":   {top, link(tar.TypeLink, "1-a/l", "1-a/f")},
		"a hard link out":          {top, link(tar.TypeSymlink, "1-a/d", outside), link(tar.TypeLink, "1-a/l", "1-a/d/f")},
		"a hard link across":       {top, file("1-a/f"), {Typeflag: tar.TypeDir, Name: "2-b/"}, link(tar.TypeLink, "2-b/l", "1-a/f")},
		"a disk":                   {top, {Typeflag: tar.TypeBlock, Name: "1-a/b", Devmajor: 8}},
		"a device":                 {top, {Typeflag: tar.TypeChar, Name: "1-a/c", Devmajor: 1, Devminor: 3}},
		"another kind":             {top, {Typeflag: tar.TypeCont, Name: "1-a/c"}},
		"a redirected folder":      {top, with("trusted.overlay.redirect")},
		"content of another layer": {top, with("trusted.overlay.metacopy")},
		"a label":                  {top, with("security.selinux")},
		"a capability that is not": {top, with("security.capability")},
		"many layers":              many,
	} {
		var archive bytes.Buffer
		to := tar.NewWriter(&archive)
		for _, h := range headers {
			w.must(to.WriteHeader(&h))
		}
		w.must(to.Close())
		if err := w.elsewhere().Import(user, &archive); err == nil {
			t.Errorf("%s was imported", what)
		}
	}
	for what, archive := range map[string]string{"text": strings.Repeat("x", 1024), "cut off": "1-a", "more": strings.Repeat("\x00", 1025)} {
		if err := w.elsewhere().Import(user, strings.NewReader(archive)); err == nil {
			t.Errorf("%s was imported", what)
		}
	}
	list, err := os.ReadDir(outside)
	w.must(err)
	var st unix.Stat_t
	w.must(unix.Stat(filepath.Join(outside, "f"), &st))
	if len(list) != 1 || st.Nlink != 1 || st.Size != int64(len("outside")) {
		t.Errorf("outside are %v, %+v", list, st)
	}
}
