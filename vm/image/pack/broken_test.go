package pack_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/pack"
)

func remove(t testing.TB, p pack.Pack, file string) string {
	t.Helper()
	if err := os.Remove(filepath.Join(p.Dir, file)); err != nil {
		t.Fatal(err)
	}
	return file
}

// entries are the names in the folder of a store, but for locks.
func entries(t testing.TB, s pack.Store) string {
	t.Helper()
	list, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".lock") {
			all = append(all, e.Name())
		}
	}
	return strings.Join(all, " ")
}

func TestABrokenPackIsRemovedAndReplaced(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "a.tar.zst")
	if err := pack.Export(t.Context(), build(t, pack.Store{Dir: t.TempDir()}, "a"), archive, nil); err != nil {
		t.Fatal(err)
	}
	for what, damage := range damages {
		t.Run(what, func(t *testing.T) {
			s := pack.Store{Dir: t.TempDir()}
			file := damage(t, build(t, s, "a"))
			if _, err := s.Get("a"); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(fault.AdviceOf(err), "pack remove a`") {
				t.Errorf("Get = %v (%s), want one that names %s and how to remove it", err, fault.AdviceOf(err), file)
			}
			if err := s.Remove(t.Context(), "a"); err != nil || entries(t, s) != "" {
				t.Errorf("Remove = %v, and leaves %q", err, entries(t, s))
			}

			// One that cannot be made again stays, and it is said why it could not.
			damage(t, build(t, s, "a"))
			before, _ := os.ReadDir(filepath.Join(s.Dir, "a"))
			unreachable := fault.Newf(fault.Unavailable, "download", "", "nobody is there")
			_, err := s.Build(t.Context(), "a", nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
				m, _ := fill(ctx, dir)
				return m, unreachable
			})
			after, _ := os.ReadDir(filepath.Join(s.Dir, "a"))
			if !errors.Is(err, unreachable) || len(after) != len(before) || entries(t, s) != "a" {
				t.Errorf("Build that fails = %v, of %v it leaves %v; the store has %q", err, before, after, entries(t, s))
			}

			var noted string
			report := func(e progress.Event) { noted += e.Note }
			p, err := s.Build(t.Context(), "a", report, fill)
			if err != nil || !strings.Contains(noted, file) {
				t.Fatalf("Build = %v, and notes %q, want it to name %s", err, noted, file)
			}
			if err := p.Verify(t.Context(), nil); err != nil || entries(t, s) != "a" {
				t.Errorf("what replaced it: %v; the store has %q", err, entries(t, s))
			}

			damage(t, p)
			p, err = s.Import(t.Context(), archive, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Verify(t.Context(), nil); err != nil || entries(t, s) != "a" {
				t.Errorf("what was imported again: %v; the store has %q", err, entries(t, s))
			}
		})
	}
}

// A broken pack of other content may be all that is left of it.
func TestImportReplacesNoOtherPackThatIsBroken(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "a.tar.zst")
	if err := pack.Export(t.Context(), build(t, pack.Store{Dir: t.TempDir()}, "a"), archive, nil); err != nil {
		t.Fatal(err)
	}
	s := pack.Store{Dir: t.TempDir()}
	p, err := s.Build(t.Context(), "a", nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
		m, err := fill(ctx, dir)
		m.Version = "13"
		return m, err
	})
	if err != nil {
		t.Fatal(err)
	}
	remove(t, p, "kernel")
	if _, err := s.Import(t.Context(), archive, nil); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "pack remove a`") {
		t.Errorf("Import = %v (%s), want rejected", err, fault.AdviceOf(err))
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "root.tar")); err != nil || entries(t, s) != "a" {
		t.Errorf("what was there: %v; the store has %q", err, entries(t, s))
	}
}

// What cannot be read just now, or not by this program, may be whole.
func TestWhatMayBeWholeIsNotReplaced(t *testing.T) {
	for what, spoil := range map[string]func(manifest string) error{
		"a manifest of a newer program": func(manifest string) error { return os.WriteFile(manifest, []byte(`{"format": 2}`), 0o644) },
		"a manifest that leads in a circle": func(manifest string) error {
			return errors.Join(os.Remove(manifest), os.Symlink(pack.ManifestName, manifest))
		},
	} {
		s := pack.Store{Dir: t.TempDir()}
		p := build(t, s, "a")
		if err := spoil(filepath.Join(p.Dir, pack.ManifestName)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Build(t.Context(), "a", nil, func(context.Context, string) (pack.Manifest, error) { panic("it is there") }); err == nil {
			t.Errorf("%s: Build succeeds", what)
		}
		if err := s.Remove(t.Context(), "a"); err != nil || entries(t, s) != "" {
			t.Errorf("%s: Remove = %v, and leaves %q", what, err, entries(t, s))
		}
	}

	s := pack.Store{Dir: t.TempDir()}
	p := build(t, s, "a")
	err := withoutFiles(t, func() error { _, err := s.Get("a"); return err })
	if !errors.Is(err, syscall.EMFILE) || strings.Contains(fault.AdviceOf(err), "pack remove") {
		t.Errorf("Get without files = %v (%s)", err, fault.AdviceOf(err))
	}
	if err := p.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// withoutFiles does something while this process can open no file.
func withoutFiles(t testing.TB, do func() error) error {
	t.Helper()
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
			t.Error(err)
		}
	}()
	return do()
}

// Whoever is killed while it replaces a broken pack leaves what the next one clears away.
func TestKilledWhileItReplaces(t *testing.T) {
	for what, killed := range map[string]func(s pack.Store, p pack.Pack) error{
		"before the new one came": func(s pack.Store, p pack.Pack) error { return os.Rename(p.Dir, filepath.Join(s.Dir, ".a.broken")) },
		"before the old one went": func(s pack.Store, p pack.Pack) error { return os.Mkdir(filepath.Join(s.Dir, ".a.broken"), 0o755) },
		"and damaged once more": func(s pack.Store, p pack.Pack) error {
			return errors.Join(os.MkdirAll(filepath.Join(s.Dir, ".a.broken", "x"), 0o755), os.Remove(p.Path(p.Manifest.Root)))
		},
	} {
		s := pack.Store{Dir: t.TempDir()}
		if err := killed(s, build(t, s, "a")); err != nil {
			t.Fatal(err)
		}
		if err := build(t, s, "a").Verify(t.Context(), nil); err != nil || entries(t, s) != "a" {
			t.Errorf("%s: %v; the store has %q", what, err, entries(t, s))
		}
	}
}
