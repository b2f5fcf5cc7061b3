package copyfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
)

// room runs the scripts with the programs of a distribution.
type room struct {
	t    *testing.T
	path string // their PATH
}

// rooms runs a test with this host's programs, which are Debian's, and with busybox's.
func rooms(t *testing.T, test func(*testing.T, room)) {
	applets := t.TempDir()
	busybox := lab.Busybox(t, "amd64")
	for _, name := range []string{"sh", "tar", "find", "mv", "mkdir", "mktemp", "rm", "stat"} {
		if err := os.Symlink(busybox, filepath.Join(applets, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("GNU", func(t *testing.T) { test(t, room{t, os.Getenv("PATH")}) })
	t.Run("busybox", func(t *testing.T) { test(t, room{t, applets}) })
}

// run runs a script and returns its exit code and output.
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

// tree describes the files below a folder: mode, and content or link target.
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

// sample makes a folder with every kind of file and awkward names.
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

// What goes into a room comes out of it unchanged, whatever its name.
func TestThereAndBack(t *testing.T) {
	rooms(t, func(t *testing.T, r room) {
		here, there, back := t.TempDir(), t.TempDir(), t.TempDir()
		source := filepath.Join(here, "project\n")
		sample(t, source)
		want := tree(t, source)
		if err := syscall.Mkfifo(filepath.Join(source, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		archive, sum := pack(t, source, "project\n")
		if sum.Files != 7 || sum.Bytes < 1_100_000 || fmt.Sprint(sum.LeftOut) != "[pipe]" {
			t.Errorf("%+v", sum)
		}
		for _, to := range []string{there, there + "/other\n"} { // into a folder, and under a new name
			if code, _ := r.run("/", InScript, archive, to, "project\n"); code != 0 {
				t.Fatalf("to %s: %d", to, code)
			}
		}
		same(t, tree(t, filepath.Join(there, "project\n")), want)
		same(t, tree(t, filepath.Join(there, "other\n")), want)
		again := func(dir string, copies func()) { // copies onto a part of the files
			if err := os.RemoveAll(filepath.Join(dir, "-r")); err != nil {
				t.Fatal(err)
			}
			copies()
			same(t, tree(t, dir), want)
		}
		again(filepath.Join(there, "project\n"), func() {
			if code, _ := r.run("/", InScript, archive, there, "project\n"); code != 0 {
				t.Fatal(code)
			}
		})
		if list, _ := os.ReadDir(there); len(list) != 2 {
			t.Errorf("it leaves %v", list)
		}
		code, out := r.run(there, OutScript, nil, "./other\n")
		if code != 0 {
			t.Fatal(code)
		}
		sum, err := Place(t.Context(), bytes.NewReader(out), "other\n", back)
		if err != nil || sum.Files != 7 || len(sum.LeftOut) > 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		same(t, tree(t, filepath.Join(back, "other\n")), want)
		again(filepath.Join(back, "other\n"), func() {
			if _, err := Place(t.Context(), bytes.NewReader(out), "other\n", back); err != nil {
				t.Fatal(err)
			}
		})
		if list, _ := os.ReadDir(back); len(list) != 1 {
			t.Errorf("it leaves %v", list)
		}
	})
}

// A copy removes the folder of a copy that was killed days ago, and nothing else.
func TestLeftover(t *testing.T) {
	rooms(t, func(t *testing.T, r room) {
		there, source := t.TempDir(), filepath.Join(t.TempDir(), "a")
		old := time.Now().Add(-48 * time.Hour)
		for _, name := range []string{".osaurus-copy-Left00/files", ".osaurus-copy-Young0", "kept"} {
			if err := os.MkdirAll(filepath.Join(there, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(os.Symlink("kept", filepath.Join(there, ".osaurus-copy-Link00")), os.WriteFile(source, nil, 0o644),
			os.Chtimes(filepath.Join(there, ".osaurus-copy-Left00"), old, old), os.Chtimes(filepath.Join(there, "kept"), old, old))
		if err != nil {
			t.Fatal(err)
		}
		archive, _ := pack(t, source, "a")
		if code, _ := r.run("/", InScript, archive, there, "a"); code != 0 {
			t.Fatal(code)
		}
		if got := slices.Sorted(maps.Keys(tree(t, there))); fmt.Sprint(got) != "[. .osaurus-copy-Link00 .osaurus-copy-Young0 a kept]" {
			t.Errorf("there are %q", got)
		}
	})
}

// A copy onto existing files replaces and adds files.
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
			// a folder further down is kept too
			nested := write(filepath.Join(t.TempDir(), "p"), "both/x")
			before := tree(t, nested)
			if code := copies(filepath.Dir(nested), write(filepath.Join(t.TempDir(), "p"), "both")); code == 0 {
				t.Errorf("%s: a file goes where a folder is", name)
			}
			same(t, tree(t, nested), before)
			if list, _ := filepath.Glob(there + "/.osaurus-copy*"); len(list) > 0 {
				t.Errorf("%s leaves %v", name, list)
			}
		}
		if code, _ := r.run(here, OutScript, nil, "./nothing"); code != ExitNotFound {
			t.Errorf("what is not there: %d", code)
		}
	})
}

// An archive that is cut off anywhere leaves nothing.
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
