//go:build linux

package files

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// TestDigest asks for regular files, links, folders and pipes.
func TestDigest(t *testing.T) {
	c, dir := client(t), t.TempDir()
	const limit = 100
	in := func(name string) string { return filepath.Join(dir, "plugins", name) }
	must(t, os.MkdirAll(in("a/folder"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "outside"), []byte("x"), 0o644))
	must(t, os.Symlink("../../outside", in("a/out")))
	must(t, os.Symlink("file", in("a/link")))
	must(t, os.Symlink("nowhere", in("a/dangling")))
	must(t, os.Symlink("round", in("a/round")))
	must(t, unix.Mkfifo(in("a/pipe"), 0o644))
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	ask := func(folder string, paths ...string) (list []*guestpb.FileDigest, err error) {
		q := &guestpb.DigestFilesRequest{Folder: at(dir, folder), Limit: limit}
		for _, p := range paths {
			q.Paths = append(q.Paths, []byte(p))
		}
		r, err := c.Digest(t.Context(), q)
		if err != nil {
			return nil, protocol.Decode("", "", err)
		}
		return r.Files, nil
	}

	want := map[string]string{
		"a/file": sum("a file"), "a/link": sum("a file"), "a/empty": sum(""), "a/full": sum(strings.Repeat("x", limit)),
		"a/large": "there", "a/out": "there", "a/round": "there",
		"a/folder": "", "a/pipe": "", "a/dangling": "", "a/nothing": "", "no/folder": "", "a/file/below": "",
	}
	for name, text := range map[string]string{"a/file": "a file", "a/empty": "", "a/full": strings.Repeat("x", limit), "a/large": strings.Repeat("x", limit+1)} {
		must(t, os.WriteFile(in(name), []byte(text), 0o644))
	}
	paths := slices.Collect(maps.Keys(want))
	got, err := ask("plugins", paths...)
	if err != nil || len(got) != len(paths) {
		t.Fatalf("%d answers, %v", len(got), err)
	}
	for n, name := range paths {
		is := fmt.Sprintf("%x", got[n].Sha256)
		if got[n].There && is == "" {
			is = "there"
		}
		if is != want[name] || got[n].There != (want[name] != "") {
			t.Errorf("%s: %v, want %q", name, got[n], want[name])
		}
	}

	for _, folder := range []string{"none", "outside"} {
		if got, err := ask(folder, "a", "b"); err != nil || len(got) != 2 || got[0].There || got[1].There {
			t.Errorf("in %s there are %v, %v", folder, got, err)
		}
	}
	for _, wrong := range [][]string{{""}, {"/etc/passwd"}, {"a\x00b"}, {strings.Repeat("a/", 4000)}, make([]string, protocol.MaxDigests+1)} {
		if got, err := ask("plugins", wrong...); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%.20q: %v, %v", wrong[len(wrong)-1], got, err)
		}
	}
}
