package copyfiles

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func archiveOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 3
		}
		h.Mode = 0o7777
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = w.Write([]byte("new"))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPlaceRefuses: a hostile archive writes nothing outside of its destination, and a refused
// one leaves nothing.
func TestPlaceRefuses(t *testing.T) {
	dir := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	for name, headers := range map[string][]tar.Header{
		"another name":        {dir("p/"), file("q")},
		"upwards":             {dir("p/"), file("p/../../outside/x")},
		"absolute":            {file("/p")},
		"through a link":      {dir("p/"), dir("p/d"), link("p/l", "d"), file("p/l/x")},
		"a hard link outside": {dir("p/"), {Typeflag: tar.TypeLink, Name: "p/x", Linkname: "../outside/kept"}},
		"twice":               {dir("p/"), file("p/x"), file("p/x")},
		"a link alone":        {link("p", "/etc/passwd")},
		"nothing":             {},
		"a device":            {dir("p/"), {Typeflag: tar.TypeBlock, Name: "p/sda"}},
	} {
		base := t.TempDir()
		to := filepath.Join(base, "to")
		if err := errors.Join(os.Mkdir(to, 0o755), os.Mkdir(filepath.Join(base, "outside"), 0o755), os.WriteFile(filepath.Join(base, "outside", "kept"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		before := tree(t, base)
		if _, err := Place(t.Context(), bytes.NewReader(archiveOf(t, headers...)), "p", to); fault.KindOf(err) != fault.Rejected || strings.Contains(fault.AdviceOf(err), "archive") {
			t.Errorf("%s: %v, %s", name, err, fault.AdviceOf(err))
		}
		same(t, tree(t, base), before)
	}
	whole := archiveOf(t, dir("p/"), file("p/x"), file("p/y"))
	to := t.TempDir()
	before := tree(t, to)
	if _, err := Place(t.Context(), bytes.NewReader(whole[:2000]), "p", to); err == nil {
		t.Error("half an archive is placed")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Place(ended, bytes.NewReader(whole), "p", to); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	same(t, tree(t, to), before)
}

// Links to copied files are kept. Other links, and anything but files and folders, are left out.
func TestPlaceLeavesOut(t *testing.T) {
	base := t.TempDir()
	headers := []tar.Header{{Typeflag: tar.TypeDir, Name: "p/d/e/"}, {Typeflag: tar.TypeReg, Name: "p/x"}, {Typeflag: tar.TypeFifo, Name: "p/pipe"}}
	links := map[string]bool{
		"../x": true, "./e": true, "e/": true, "..": true, "../d/./e": true, "nowhere": true, ".././x": true,
		"../..": false, "../../q": false, "/etc/passwd": false, "e/../../x": false, "e/..": false, "../../p/../../q": false, "../../../etc": false, "../../p/x": false, "../../../x/p/x": false,
	}
	var names []string
	for to := range links {
		names = append(names, to)
		headers = append(headers, tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprintf("p/d/l%d", len(names)), Linkname: to})
	}
	sum, err := Place(t.Context(), bytes.NewReader(archiveOf(t, headers...)), "p", filepath.Join(base, "as"))
	if err != nil || len(sum.LeftOut) != 10 {
		t.Errorf("%+v, %v", sum, err)
	}
	for i, to := range names {
		got, err := os.Readlink(filepath.Join(base, fmt.Sprintf("as/d/l%d", i+1)))
		if (err == nil) != links[to] || err == nil && got != to {
			t.Errorf("to %s: %q, %v", to, got, err)
		}
	}
	info, err := os.Stat(filepath.Join(base, "as/x"))
	if err != nil || info.Mode()&^fs.ModePerm != 0 {
		t.Errorf("%v, %v", info, err)
	}
	top := archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "p/"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "p/l", Linkname: "../p/x"})
	if sum, err := Place(t.Context(), bytes.NewReader(top), "p", filepath.Join(base, "renamed")); err != nil || fmt.Sprint(sum.LeftOut) != "[p/l]" {
		t.Errorf("by the name that it had: %+v, %v", sum, err)
	}
}

// A link in place of a folder is not followed, and one in place of a file is replaced.
func TestPlaceFollowsNoLink(t *testing.T) {
	base, outside := t.TempDir(), t.TempDir()
	kept := filepath.Join(outside, "x")
	if err := errors.Join(os.WriteFile(kept, []byte("kept"), 0o600), os.Mkdir(filepath.Join(base, "p"), 0o755),
		os.Symlink(outside, filepath.Join(base, "p", "d")), os.Symlink(kept, filepath.Join(base, "p", "x"))); err != nil {
		t.Fatal(err)
	}
	file := archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "p/x"})
	if _, err := Place(t.Context(), bytes.NewReader(file), "p", base); err != nil {
		t.Error(err)
	}
	through := archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "p/d/x"})
	if _, err := Place(t.Context(), bytes.NewReader(through), "p", base); fault.KindOf(err) != fault.Rejected {
		t.Errorf("through a link: %v", err)
	}
	pipe := filepath.Join(base, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Place(t.Context(), bytes.NewReader(archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "p"})), "p", pipe); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a pipe is replaced: %v", err)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Lstat(filepath.Join(base, "p", "x")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
}

// On a file system that takes two names for one, nothing is unpacked through a link that came
// first. The test makes the files that such names would meet.
func TestNamesThatMeet(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	u := unpacker{root: root, name: "p"}
	if err := errors.Join(root.Mkdir("p", 0o755), root.Symlink(".", "p/a"), root.Mkdir("p/d", 0o755), root.Mkdir("p/e", 0)); err != nil {
		t.Fatal(err)
	}
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "p/a"}, {Typeflag: tar.TypeReg, Name: "p/a"}, {Typeflag: tar.TypeSymlink, Name: "p/a", Linkname: "d"}, {Typeflag: tar.TypeReg, Name: "p/d"},
	} {
		if err := u.take(&h, strings.NewReader("")); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
			t.Errorf("%c %s: %v", h.Typeflag, h.Name, err)
		}
	}
	for _, name := range []string{"p/d", "p/e"} {
		if err := u.take(&tar.Header{Typeflag: tar.TypeDir, Name: name}, nil); err != nil {
			t.Errorf("a folder that comes twice: %v", err)
		}
	}
}

func TestPrint(t *testing.T) {
	var b bytes.Buffer
	if sum, err := Print(t.Context(), bytes.NewReader(archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "p"})), "p", &b); err != nil || b.String() != "new" || sum.Bytes != 3 {
		t.Errorf("%q, %+v, %v", b.String(), sum, err)
	}
	if _, err := Print(t.Context(), bytes.NewReader(archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "p/"})), "p", &b); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("a folder: %v", err)
	}
}

// No archive writes outside of its destination.
func FuzzPlace(f *testing.F) {
	f.Add(archiveOf(f, tar.Header{Typeflag: tar.TypeDir, Name: "p/"}, tar.Header{Typeflag: tar.TypeReg, Name: "p/x"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "p/l", Linkname: "../x"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		base := t.TempDir()
		if err := os.Mkdir(filepath.Join(base, "to"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Place(t.Context(), bytes.NewReader(archive), "p", filepath.Join(base, "to"))
		list, _ := os.ReadDir(base)
		in, _ := os.ReadDir(filepath.Join(base, "to"))
		if len(list) != 1 || len(in) > 1 || err != nil && len(in) > 0 || len(in) == 1 && in[0].Name() != "p" {
			t.Errorf("%v, %v, %v", list, in, err)
		}
	})
}
