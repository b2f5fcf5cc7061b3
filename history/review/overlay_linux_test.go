package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/smalldisk"
)

// overlay is the kernel's overlay over a real folder.
type overlay struct{ upper, merged string }

func (o overlay) at(name string) string { return filepath.Join(o.merged, name) }

// List reads the upper layer as the guest does.
func (o overlay) List(context.Context) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		_ = filepath.WalkDir(o.upper, func(at string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel(o.upper, at)
			if err != nil || name == "." {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			e := Listed{Path: name, Entry: history.Entry{Kind: Other, Mode: info.Mode().Perm(), Size: info.Size(), Inode: st.Ino}, Born: time.Now().Add(time.Hour)}
			e.Mtime, e.Ctime = info.ModTime().UnixNano(), time.Unix(st.Ctim.Unix()).UnixNano()
			switch mode := info.Mode(); {
			case mode.IsRegular():
				e.Kind = File
			case mode.IsDir():
				e.Kind = Folder
				value := make([]byte, 1)
				for _, attr := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
					if n, err := unix.Lgetxattr(at, attr, value); err == nil && n == 1 && value[0] == 'y' {
						e.Kind = Opaque
					}
				}
			case mode&fs.ModeSymlink != 0:
				e.Kind = Symlink
				if e.Target, err = os.Readlink(at); err != nil {
					return err
				}
			case mode&fs.ModeCharDevice != 0 && info.Sys().(*syscall.Stat_t).Rdev == 0:
				e.Kind = Whiteout
			}
			if !yield(e, nil) {
				return fs.SkipAll
			}
			return nil
		})
	}
}

func (o overlay) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(o.upper, name))
}

func (o overlay) put(_ context.Context, name string, e history.Entry, content io.Reader) error {
	at := o.at(name)
	if info, err := os.Lstat(at); err == nil && !(e.Kind == Folder && info.IsDir()) {
		if err := os.Remove(at); err != nil {
			return err
		}
	}
	switch e.Kind {
	case Folder:
		_ = os.Mkdir(at, 0o700)
		return os.Chmod(at, e.Mode)
	case Symlink:
		return os.Symlink(e.Target, at)
	case File:
		data, err := io.ReadAll(content)
		return errors.Join(err, os.WriteFile(at, data, 0o600), os.Chmod(at, e.Mode))
	}
	return nil
}

// mountOverlay puts an overlay over the real folder of a world.
func mountOverlay(t *testing.T, w *world, dir string) overlay {
	t.Helper()
	o := overlay{filepath.Join(dir, "upper"), filepath.Join(dir, "merged")}
	work := filepath.Join(dir, "work")
	for _, d := range []string{o.upper, o.merged, work} {
		must(t, os.Mkdir(d, 0o755))
	}
	options := "lowerdir=" + w.dir + ",upperdir=" + o.upper + ",workdir=" + work + ",redirect_dir=off,metacopy=off"
	if os.Geteuid() != 0 || unix.Mount("overlay", o.merged, "overlay", 0, options) != nil {
		must(t, unix.Mount("overlay", o.merged, "overlay", 0, options+",userxattr"))
	}
	t.Cleanup(func() { must(t, unix.Unmount(o.merged, unix.MNT_DETACH)) })
	w.Upper, w.View = o, o.put
	return o
}

// Random work of an agent in the kernel's overlay is accepted, or rejected, as a whole.
func TestOverlay(t *testing.T) {
	smalldisk.Run(t, "64m", func(d *smalldisk.Disk) {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // repeatable
			dir := filepath.Join(d.Dir, fmt.Sprint(seed))
			w := worldIn(t, dir)
			for _, name := range []string{"a", "b", "d/a", "d/b", "d/e/a", "d/e/f/b", "g/h"} {
				w.host(name, name+"\n", 0o644)
			}
			must(t, os.Symlink("a", filepath.Join(w.dir, "d/link")))
			o := mountOverlay(t, w, dir)
			for range 15 {
				script := randomScript(r)
				cmd := exec.Command("sh", "-c", script)
				cmd.Dir = o.merged
				_ = cmd.Run() // many things are not possible
			}
			want := tree(t, o.merged)
			real := w.has()
			if r.IntN(3) > 0 {
				if report := w.accept(); len(report.Left) > 0 {
					t.Errorf("seed %d: left: %+v", seed, report.Left)
				}
				equalMaps(t, fmt.Sprintf("seed %d: real", seed), w.has(), want)
			} else {
				if report := w.reject(); len(report.Left) > 0 {
					t.Errorf("seed %d: left: %+v", seed, report.Left)
				}
				equalMaps(t, fmt.Sprintf("seed %d: real", seed), w.has(), real)
				equalMaps(t, fmt.Sprintf("seed %d: room", seed), tree(t, o.merged), real)
			}
			if out := w.compute(); len(out.Changes) != 0 {
				t.Errorf("seed %d: still changed: %+v", seed, out.Changes)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// What an agent sees in the kernel's overlay is brought back to what it saw before, and there again.
func TestRestore(t *testing.T) {
	smalldisk.Run(t, "64m", func(d *smalldisk.Disk) {
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 6)) //nolint:gosec // repeatable
			dir := filepath.Join(d.Dir, fmt.Sprint(seed))
			w := worldIn(t, dir)
			for _, name := range []string{"a", "b", "d/a", "d/b", "d/e/a", "d/e/f/b", "g/h"} {
				w.host(name, name+"\n", 0o644)
			}
			o := mountOverlay(t, w, dir)
			type point struct {
				tree history.Digest
				seen map[string]string
			}
			var points []point
			note := func() {
				made, err := w.Record(t.Context())
				must(t, err)
				points = append(points, point{made, tree(t, o.merged)})
			}
			note()
			for range 6 {
				for range 4 {
					cmd := exec.Command("sh", "-c", randomScript(r))
					cmd.Dir = o.merged
					_ = cmd.Run() // many things are not possible
				}
				note()
				to := points[r.IntN(len(points))]
				done, err := w.Restore(t.Context(), to.tree, nil)
				if err != nil || len(done.Notes) > 0 {
					t.Fatal(seed, done.Notes, err)
				}
				equalMaps(t, fmt.Sprintf("seed %d: room", seed), tree(t, o.merged), to.seen)
				if t.Failed() {
					return
				}
				note()
			}
		}
	})
}

// Only some paths are brought back, and a change is shown as the agent saw it.
func TestRestorePaths(t *testing.T) {
	w := newWorld(t)
	w.host("d/a", "a\n", 0o644)
	w.host("d/b", "b\n", 0o644)
	before, err := w.Record(t.Context())
	must(t, err)
	w.agent("d/a", "agent\n", 0o644)
	w.agentRemove("d/b")
	w.agent("d/c", "c\n", 0o644)
	after, err := w.Record(t.Context())
	must(t, err)
	shown := map[string]string{}
	for c, err := range w.History.Diff(t.Context(), before, after) {
		must(t, err)
		if c, changed := Shown(t.Context(), w.History, w.Key, c); changed {
			lines, err := w.History.Lines(t.Context(), c)
			must(t, err)
			shown[c.Path] = fmt.Sprintf("%s +%d -%d", c.What, lines.Added, lines.Removed)
		}
	}
	equalMaps(t, "shown", shown, map[string]string{"d/a": "modified +1 -1", "d/b": "removed +0 -1", "d/c": "added +1 -0"})
	_, err = w.Restore(t.Context(), before, []string{"d/b", "d/c"})
	must(t, err)
	equalMaps(t, "room", w.seen(), map[string]string{"d": show(Folder, 0o755, ""), "d/a": show(File, 0o644, "agent\n"), "d/b": show(File, 0o644, "b\n")})
}

func randomScript(r *rand.Rand) string {
	names := []string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/f", "d/e/f/b", "g", "g/h", "new", "new/a", "d/new"}
	one, two := names[r.IntN(len(names))], names[r.IntN(len(names))]
	return []string{
		"rm -rf " + one, "mv " + one + " " + two, "mkdir " + one, "rm -rf " + one + " && mkdir " + one, "echo $$ > " + one, "echo more >> " + one,
		"chmod 700 " + one, "ln -sf x " + one, "rm -rf " + one + " && echo file > " + one, "cp -r " + one + " " + two, "touch " + one,
	}[r.IntN(11)]
}

// An agent edits ten files of this repository. Three hunks are accepted, and the rest
// rejected: git shows just those.
func TestThisRepository(t *testing.T) {
	top, err := exec.Command("git", "-c", "safe.directory=*", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skip("not a git repository")
	}
	smalldisk.Run(t, "256m", func(d *smalldisk.Disk) {
		w := worldIn(t, d.Dir)
		git := func(args ...string) string {
			cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-c", "core.autocrlf=false"}, args...)...)
			cmd.Dir = w.dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			return string(out)
		}
		archive := exec.Command("sh", "-c", "git -c safe.directory='*' archive HEAD | tar -x -C "+w.dir)
		archive.Dir = strings.TrimSpace(string(top))
		if out, err := archive.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		git("init", "-q")
		git("add", "-A")
		git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
		o := mountOverlay(t, w, d.Dir)
		files := strings.Fields(git("ls-files", "network/*.go"))[:10]
		for _, name := range files {
			data, err := os.ReadFile(o.at(name))
			must(t, err)
			lines := strings.SplitAfter(string(data), "\n")
			lines[1] = "// first\n" + lines[1]
			lines = append(lines, "// last\n")
			must(t, os.WriteFile(o.at(name), []byte(strings.Join(lines, "")), 0o644))
		}
		out := w.compute()
		if len(out.Changes) != len(files) {
			t.Fatalf("%d changes", len(out.Changes))
		}
		picks := []Pick{{Path: files[0], Hunks: []int{1}, ID: out.Changes[0].ID}, {Path: files[4], Hunks: []int{2}, ID: out.Changes[4].ID}, {Path: files[9], Hunks: []int{2}}}
		if report := w.try(Selection{Picks: picks}); len(report.Left) > 0 {
			t.Fatalf("%+v", report)
		}
		if report := w.reject(); len(report.Left) > 0 || len(report.Done) != 10 {
			t.Fatalf("%+v", report)
		}
		if out := w.compute(); len(out.Changes) != 0 {
			t.Errorf("%+v", out)
		}
		diff := git("diff")
		if strings.Count(diff, "\n+// first\n") != 1 || strings.Count(diff, "\n+// last\n") != 2 || strings.Count(diff, "\n@@") != 3 || strings.Count(diff, "\n-")-strings.Count(diff, "\n---") != 0 {
			t.Errorf("%s", diff)
		}
		for _, name := range files {
			seen, err := os.ReadFile(o.at(name))
			must(t, err)
			if data, err := os.ReadFile(filepath.Join(w.dir, name)); err != nil || string(data) != string(seen) {
				t.Errorf("the agent sees another %s: %v", name, err)
			}
		}
	})
}
