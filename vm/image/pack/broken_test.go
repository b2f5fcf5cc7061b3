package pack_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

// entries lists a store's folder without its lock.
func entries(t testing.TB, s pack.Store) string {
	t.Helper()
	list, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		if e.Name() != ".lock" {
			all = append(all, e.Name())
		}
	}
	return strings.Join(all, " ")
}

func export(t testing.TB, p pack.Pack) (archive string) {
	t.Helper()
	archive = filepath.Join(t.TempDir(), p.Manifest.Name+".tar.zst")
	if err := pack.Export(t.Context(), p, archive, nil); err != nil {
		t.Fatal(err)
	}
	return archive
}

func TestBrokenPackIsReplaced(t *testing.T) {
	archive := export(t, build(t, pack.Store{Dir: t.TempDir()}, "a"))
	for _, file := range []string{pack.ManifestName, "kernel", "modules.tar", "root.tar", "a cut root.tar"} {
		t.Run(file, func(t *testing.T) {
			s := pack.Store{Dir: t.TempDir()}
			damage := func(p pack.Pack) {
				t.Helper()
				name, cut := strings.CutPrefix(file, "a cut ")
				path := filepath.Join(p.Dir, name)
				err := os.Remove(path)
				if cut {
					err = os.WriteFile(path, []byte("short"), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			whole := func(p pack.Pack, err error) pack.Pack {
				t.Helper()
				if err == nil {
					err = p.Verify(t.Context(), nil)
				}
				if err != nil || entries(t, s) != "a" {
					t.Fatalf("%v; the store has %q", err, entries(t, s))
				}
				return p
			}
			damage(build(t, s, "a"))
			name := strings.TrimPrefix(file, "a cut ")
			if _, err := s.Get("a"); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(fault.AdviceOf(err), "pack remove a`") {
				t.Errorf("Get = %v (%s), want one that names %s and how to remove it", err, fault.AdviceOf(err), name)
			}
			if err := s.Remove(t.Context(), "a"); err != nil || entries(t, s) != "" {
				t.Errorf("Remove = %v, and leaves %q", err, entries(t, s))
			}

			damage(build(t, s, "a"))
			unreachable := fault.Newf(fault.Unavailable, "download", "", "nobody is there")
			_, err := s.Build(t.Context(), "a", nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
				m, _ := fill(ctx, dir)
				return m, unreachable
			})
			if !errors.Is(err, unreachable) || entries(t, s) != "a" {
				t.Errorf("Build that fails = %v; the store has %q", err, entries(t, s))
			}
			var noted string
			p := whole(s.Build(t.Context(), "a", func(e progress.Event) { noted += e.Note }, fill))
			if !strings.Contains(noted, name) {
				t.Errorf("Build notes %q, want it to name %s", noted, name)
			}
			damage(p)
			whole(s.Import(t.Context(), archive, nil))
		})
	}
}

func TestManifestOfNewerProgramIsNotReplaced(t *testing.T) {
	s := pack.Store{Dir: t.TempDir()}
	p := build(t, s, "a")
	if err := os.WriteFile(filepath.Join(p.Dir, pack.ManifestName), []byte(`{"format": 2}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Build(t.Context(), "a", nil, func(context.Context, string) (pack.Manifest, error) { panic("it is there") }); err == nil {
		t.Error("Build succeeds")
	}
	if err := s.Remove(t.Context(), "a"); err != nil || entries(t, s) != "" {
		t.Errorf("Remove = %v, and leaves %q", err, entries(t, s))
	}
}

func TestBroken(t *testing.T) {
	for cause, want := range map[error]bool{
		nil:                                    false,
		fault.New(fault.Rejected, "", "", nil): true,
		fs.ErrNotExist:                         true,
		syscall.EIO:                            true,
		syscall.EMFILE:                         false,
		syscall.EACCES:                         false,
		context.Canceled:                       false,
	} {
		err := cause
		if cause != nil {
			err = fault.Wrap("verify image", "a/file", &fs.PathError{Op: "read", Path: "a/file", Err: cause})
		}
		if got := pack.Broken(err); got != want {
			t.Errorf("Broken(%v) = %v", err, got)
		}
	}
}
