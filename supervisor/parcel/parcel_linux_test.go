package parcel

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/internal/lab"
)

// room is the end of a parcel in a room: programs of one of the guests' distributions.
type room struct {
	t    *testing.T
	path string // their PATH
}

// rooms has a test be run with this host's programs, which are Debian's, and with busybox's.
func rooms(t *testing.T, test func(*testing.T, room)) {
	applets := t.TempDir()
	busybox := lab.Busybox(t, "amd64")
	for _, name := range []string{"sh", "tar", "find", "mv", "mkdir", "mktemp", "rm", "dirname", "basename", "stat"} {
		if err := os.Symlink(busybox, filepath.Join(applets, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("GNU", func(t *testing.T) { test(t, room{t, os.Getenv("PATH")}) })
	t.Run("busybox", func(t *testing.T) { test(t, room{t, applets}) })
}

// run runs a script and returns its exit code and what it wrote.
func (r room) run(dir, script string, in []byte, args ...string) (int, []byte) {
	r.t.Helper()
	sh, err := exec.LookPath(filepath.Join(r.path, "sh"))
	if err != nil {
		sh = "/bin/sh"
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(sh, append([]string{"-c", script, "sh"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + r.path}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	if errs.Len() > 0 {
		r.t.Logf("%s", &errs)
	}
	return cmd.ProcessState.ExitCode(), out.Bytes()
}

// tree are the files below a folder: what they hold, or to where they lead, and their modes.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, at)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			all[name] = info.Mode().String()
		case info.Mode().Type() == fs.ModeSymlink:
			to, _ := os.Readlink(at)
			all[name] = "link to " + to
		case info.Mode().IsRegular():
			text, err := os.ReadFile(at)
			all[name] = fmt.Sprintf("%v %d %.16x %.40s", info.Mode(), info.ModTime().Unix(), sha256.Sum256(text), text)
			return err
		default:
			all[name] = "something else"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// sample is a folder with what there may be in one.
func sample(t *testing.T, dir string) {
	t.Helper()
	deep := filepath.Join(dir, strings.Repeat("long name ", 9), strings.Repeat("and longer ", 9))
	own := filepath.Join(dir, "-r", "\xff own")
	for _, folder := range []string{deep, filepath.Join(dir, "empty"), own} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"-r/\xff own/\xfe": 0o600, "a": 0o644, "run me": 0o755, "-r/*\n": 0o600, "-r/read only": 0o444} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("this is "+name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(deep, "large"), bytes.Repeat([]byte("0123456789\n"), 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../a", filepath.Join(dir, "-r", "to a")); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, source, name string) ([]byte, Sum) {
	t.Helper()
	var b bytes.Buffer
	sum, err := Pack(context.Background(), &b, source, name)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), sum
}

// What goes into a room and comes out of it is what it was.
func TestThereAndBack(t *testing.T) {
	rooms(t, func(t *testing.T, r room) {
		here, there, back := t.TempDir(), t.TempDir(), t.TempDir()
		source := filepath.Join(here, "project")
		sample(t, source)
		want := tree(t, source)
		if err := syscall.Mkfifo(filepath.Join(source, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		archive, sum := pack(t, source, "project")
		if sum.Files != 7 || sum.Bytes < 1_100_000 || fmt.Sprint(sum.LeftOut) != "[pipe]" {
			t.Errorf("%+v", sum)
		}
		for _, to := range []string{there, there + "/other"} { // into what is there, and as what is not
			if code, _ := r.run("/", InScript, archive, to, "project"); code != 0 {
				t.Fatalf("to %s: %d", to, code)
			}
		}
		same(t, tree(t, filepath.Join(there, "project")), want)
		same(t, tree(t, filepath.Join(there, "other")), want)
		again := func(dir string, copies func()) { // some of it new, in a folder that is there
			if err := os.RemoveAll(filepath.Join(dir, "-r")); err != nil {
				t.Fatal(err)
			}
			copies()
			same(t, tree(t, dir), want)
		}
		again(filepath.Join(there, "project"), func() {
			if code, _ := r.run("/", InScript, archive, there, "project"); code != 0 {
				t.Fatal(code)
			}
		})
		if list, _ := os.ReadDir(there); len(list) != 2 {
			t.Errorf("it leaves %v", list)
		}
		code, out := r.run(there, OutScript, nil, "./other")
		if code != 0 {
			t.Fatal(code)
		}
		sum, err := Place(t.Context(), bytes.NewReader(out), "other", back)
		if err != nil || sum.Files != 7 || len(sum.LeftOut) > 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		same(t, tree(t, filepath.Join(back, "other")), want)
		again(filepath.Join(back, "other"), func() {
			if _, err := Place(t.Context(), bytes.NewReader(out), "other", back); err != nil {
				t.Fatal(err)
			}
		})
		if list, _ := os.ReadDir(back); len(list) != 1 {
			t.Errorf("it leaves %v", list)
		}
	})
}

// What is there already is replaced file by file, and added to.
func TestOntoWhatIsThere(t *testing.T) {
	write := func(dir string, files ...string) string {
		for _, name := range files {
			at := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(dir), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	rooms(t, func(t *testing.T, r room) {
		here := write(filepath.Join(t.TempDir(), "p"), "new", "both", "sub/new", "sub/both")
		file := filepath.Join(here, "both")
		in := func(to, source string) int {
			archive, _ := pack(t, source, filepath.Base(source))
			code, _ := r.run("/", InScript, archive, to, filepath.Base(source))
			return code
		}
		out := func(to, source string) int {
			_, archive := r.run(filepath.Dir(source), OutScript, nil, "./"+filepath.Base(source))
			_, err := Place(t.Context(), bytes.NewReader(archive), filepath.Base(source), to)
			switch {
			case err == nil:
				return 0
			case fault.KindOf(err) == fault.NotFound:
				return ExitNotFound
			case fault.KindOf(err) == fault.Rejected:
				return ExitRefused
			}
			t.Error(err)
			return 1
		}
		for name, copies := range map[string]func(to, source string) int{"in": in, "out": out} {
			there := t.TempDir()
			old := write(filepath.Join(there, "p"), "old", "both", "sub/old", "sub/both")
			if code := copies(there, here); code != 0 {
				t.Fatalf("%s: %d", name, code)
			}
			got := tree(t, old)
			for file, of := range map[string]string{"new": here, "both": here, "sub/new": here, "sub/both": here, "old": old, "sub/old": old} {
				if want := fmt.Sprintf(" %.40s", of); !strings.HasSuffix(got[file], want) {
					t.Errorf("%s: %s is %q", name, file, got[file])
				}
			}
			for _, tc := range []struct {
				to, source string
				code       int
			}{
				{filepath.Join(old, "both"), file, 0}, {filepath.Join(old, "both"), here, ExitRefused}, {filepath.Join(there, "no/such"), file, ExitNotFound},
				{filepath.Join(there, "no") + "/", file, ExitNotFound}, {write(filepath.Join(there, "q"), "both/x"), file, ExitRefused},
			} {
				if code := copies(tc.to, tc.source); code != tc.code {
					t.Errorf("%s: %s to %s: %d, want %d", name, tc.source, tc.to, code, tc.code)
				}
			}
			// further down a folder is kept too
			nested := write(filepath.Join(t.TempDir(), "p"), "both/x")
			before := tree(t, nested)
			if code := copies(filepath.Dir(nested), write(filepath.Join(t.TempDir(), "p"), "both")); code == 0 {
				t.Errorf("%s: a file goes where a folder is", name)
			}
			same(t, tree(t, nested), before)
			if list, _ := filepath.Glob(there + "/.parcel*"); len(list) > 0 {
				t.Errorf("%s leaves %v", name, list)
			}
		}
		if code, _ := r.run(here, OutScript, nil, "./nothing"); code != ExitNotFound {
			t.Errorf("what is not there: %d", code)
		}
	})
}

// Of a parcel that is cut off anywhere nothing is put in place.
func TestCutOff(t *testing.T) {
	here := filepath.Join(t.TempDir(), "p")
	for _, name := range []string{"a", "b"} {
		if err := errors.Join(os.MkdirAll(here, 0o755), os.WriteFile(filepath.Join(here, name), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	archive, _ := pack(t, here, "p")
	end := bytes.Index(archive, []byte(whole))
	rooms(t, func(t *testing.T, r room) {
		there := t.TempDir()
		for n := 0; n <= end; n += 512 {
			if code, _ := r.run("/", InScript, archive[:n], there, "p"); code == 0 {
				t.Errorf("%d bytes of %d are taken for all", n, len(archive))
			}
			if list, _ := os.ReadDir(there); len(list) > 0 {
				t.Fatalf("%d bytes of %d leave %v", n, len(archive), list)
			}
		}
	})
}

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

// Whatever comes out of a room, nothing outside of its place is written, and nothing is left
// where it is not whole.
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

// Links stay where they lead to something that was copied; the others, and what is no file,
// are left out.
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

// A link in the place of a folder is not written through, and one in the place of a file is
// replaced.
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

func TestPrint(t *testing.T) {
	var b bytes.Buffer
	if sum, err := Print(t.Context(), bytes.NewReader(archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "p"})), "p", &b); err != nil || b.String() != "new" || sum.Bytes != 3 {
		t.Errorf("%q, %+v, %v", b.String(), sum, err)
	}
	if _, err := Print(t.Context(), bytes.NewReader(archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "p/"})), "p", &b); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("a folder: %v", err)
	}
}

// Whatever comes, nothing is written outside of its place.
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
