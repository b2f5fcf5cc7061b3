package main

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/image/pack"
)

// TestPackUpgrade: a plugin works in the guest of the next pack, whose base no layer fits onto. It is
// tried by hand: of it all but the second image is in what TestAgents and the suite of rooms try.
func TestPackUpgrade(t *testing.T) {
	if os.Getenv("OSAURUS_GALLERY") != "all" {
		t.Skip("it makes an image of its own: make gallery")
	}
	home := sessionHome(t, "home")
	first := lab.DebianPack(t)
	ok(t, "config", "set", "pack="+first.Dir)
	ok(t, "up")
	ok(t, "agent", "create", "alice")
	tryPage(t, home)
	if code, out := as(t, "alice", "touch /usr/local/mark && test ! -e /etc/upgraded", "--root"); code != 0 {
		t.Fatal(out)
	}
	ok(t, "config", "set", "pack="+upgraded(t, first).Dir)
	ok(t, "restart")
	pageWorks(t, "alice", "an upgrade of the pack")
	if code, out := as(t, "alice", "test ! -e /usr/local/mark && cat /etc/upgraded"); code != 0 || out != "yes" {
		t.Errorf("%d, %s", code, out)
	}
	for _, want := range []string{"agent.reset", "another base", "plugin.repaired"} {
		if out := ok(t, "events"); !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// upgraded is the pack that comes after one: its root has a file more.
func upgraded(t *testing.T, p pack.Pack) pack.Pack {
	t.Helper()
	const more, text = "etc/upgraded", "yes\n"
	next, err := pack.Store{Dir: t.TempDir()}.Build(t.Context(), "upgraded", nil, func(_ context.Context, dir string) (pack.Manifest, error) {
		m := p.Manifest
		var err error
		for _, f := range []pack.File{m.Kernel, m.Modules} {
			text, unread := os.ReadFile(p.Path(f))
			err = errors.Join(err, unread, os.WriteFile(filepath.Join(dir, f.Name), text, 0o644))
		}
		return m, errors.Join(err, pack.WriteZstd(filepath.Join(dir, m.Root.Name), "", nil, func(to io.Writer) error {
			w := tar.NewWriter(to)
			err := p.Walk(t.Context(), m.Root, func(h *tar.Header, content io.Reader) error {
				if err := w.WriteHeader(h); err != nil {
					return err
				}
				_, err := io.Copy(w, content)
				return err
			})
			last := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: more, Mode: 0o644, Size: int64(len(text))})
			_, written := io.WriteString(w, text)
			return errors.Join(err, last, written, w.Close())
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return next
}
