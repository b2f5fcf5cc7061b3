package ext4_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/ext4"
)

type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, ModTime: time.Unix(1e9, 0)}, content}
}

func dir(name string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}}
}

func link(name, target string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}}
}

func symlink(name, target string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// write writes an image and returns its path.
func write(t testing.TB, r io.Reader, dirs ...string) (string, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "base.ext4")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return name, ext4.Write(t.Context(), f, r, "archive", "base", dirs...)
}

// mustWrite is write followed by e2fsck.
func mustWrite(t testing.TB, r io.Reader, dirs ...string) string {
	t.Helper()
	name, err := write(t, r, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := tool("e2fsck", "-fn", name); err != nil {
		t.Fatalf("e2fsck: %v\n%s", err, out)
	}
	return name
}

// tool runs a program of e2fsprogs.
func tool(name string, args ...string) (string, error) {
	out, err := exec.Command("/usr/sbin/"+name, args...).CombinedOutput()
	return string(out), err
}

func debugfs(t testing.TB, image, command string) string {
	t.Helper()
	out, err := tool("debugfs", "-R", command, image)
	if err != nil {
		t.Fatalf("debugfs %s: %v\n%s", command, err, out)
	}
	_, out, _ = strings.Cut(out, "\n") // its version
	return out
}

func TestEverythingIsKept(t *testing.T) {
	long := strings.Repeat("n", 255)
	setuid := file("usr/bin/su", "#!")
	setuid.Mode, setuid.Uid, setuid.Gid = 0o4755, 70000, 80000
	capable := file("usr/bin/ping", "ping")
	capable.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}
	labelled := file("labelled", "l")
	labelled.PAXRecords = map[string]string{"SCHILY.xattr.user.b": "2", "SCHILY.xattr.user.a": "1", "SCHILY.xattr.trusted.t": ""}
	entries := []entry{
		dir("./"),
		dir("./usr"),
		dir("usr/bin"),
		setuid, capable, labelled,
		file("late", "late content"),
		link("early", "late"),
		link("usr/later", "early"),
		file("empty", ""),
		file("implied/parent/file", strings.Repeat("0123456789", 1000)),
		file(long, "x"),
		symlink("short", "usr/bin"),
		symlink("long", strings.Repeat("t", 200)),
		symlink("edge59", strings.Repeat("e", 59)),
		symlink("edge60", strings.Repeat("e", 60)),
		{Header: tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3}},
		{Header: tar.Header{Typeflag: tar.TypeBlock, Name: "dev/new", Mode: 0o600, Devmajor: 259, Devminor: 70000}},
		{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o600}},
	}
	image := mustWrite(t, bytes.NewReader(archive(t, entries...)), "/proc", "/usr/bin", "/a/b")
	for _, c := range []struct {
		command string
		want    []string
	}{
		{"stat usr/bin/su", []string{"Type: regular", "Mode:  04755", "User: 70000", "Group: 80000", "Links: 1", "Size: 2"}},
		{"stat late", []string{"Links: 3", "Size: 12", "mtime: 0x3b9aca00"}},
		{"cat early", []string{"late content"}},
		{"cat usr/later", []string{"late content"}},
		{"cat implied/parent/file", []string{strings.Repeat("0123456789", 1000)}},
		{"stat " + long, []string{"Size: 1"}},
		{"stat empty", []string{"Size: 0", "Blockcount: 0"}},
		{"stat short", []string{"Type: symlink", `Fast link dest: "usr/bin"`}},
		{"stat edge59", []string{`Fast link dest: "` + strings.Repeat("e", 59) + `"`}},
		{"cat edge60", []string{strings.Repeat("e", 60)}},
		{"cat long", []string{strings.Repeat("t", 200)}},
		{"stat dev/null", []string{"Type: character", "Device major/minor number: 01:03"}},
		{"stat dev/new", []string{"Type: block", "Device major/minor number: 259:70000"}},
		{"stat fifo", []string{"Type: FIFO"}},
		{"ea_list usr/bin/ping", []string{"security.capability (20) = 01 00 00 02 00 20"}},
		{"ea_list labelled", []string{`user.a (1) = "1"`, `user.b (1) = "2"`, "trusted.t (0)"}},
		{"stat proc", []string{"Type: directory", "Mode:  0755"}},
		{"stat a/b", []string{"Type: directory"}},
		{"stats", []string{"Filesystem volume name:   base", "read-only"}},
	} {
		out := debugfs(t, image, c.command)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %.100q:\n%.1500s", c.command, want, out)
			}
		}
	}
}

// TestSizes writes directories of many blocks, a file with the maximum of extents, and more
// inodes than the blocks of one group.
func TestSizes(t *testing.T) {
	t.Run("many files", func(t *testing.T) {
		var many []entry
		for i := range 40000 {
			many = append(many, file(fmt.Sprintf("big/%0*d", i%200+1, i), ""))
		}
		image := mustWrite(t, bytes.NewReader(archive(t, many...)))
		if out := debugfs(t, image, "ls -p big"); strings.Count(out, "\n") < 40000 {
			t.Errorf("%d lines in the listing of 40000 files", strings.Count(out, "\n"))
		}
	})
	t.Run("large file", func(t *testing.T) {
		const size = 400 << 20 // four extents
		r, w := io.Pipe()
		go func() {
			tw := tar.NewWriter(w)
			err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "large", Size: size})
			for i := uint64(0); err == nil && i < size; i += 1 << 20 {
				chunk := make([]byte, 1<<20)
				chunk[0], chunk[1] = byte(i>>20), byte(i>>28)
				_, err = tw.Write(chunk)
			}
			w.CloseWithError(errors.Join(err, tw.Close()))
		}()
		image := mustWrite(t, r)
		if out := debugfs(t, image, "ex large"); !strings.Contains(out, "98304") {
			t.Errorf("extents:\n%s", out)
		}
		out := filepath.Join(t.TempDir(), "large")
		debugfs(t, image, "dump large "+out)
		f, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for i := int64(0); i < size; i += 1 << 20 {
			var b [2]byte
			if _, err := f.ReadAt(b[:], i); err != nil || b != [2]byte{byte(i >> 20), byte(i >> 28)} {
				t.Fatalf("at %d: %v, %v", i, b, err)
			}
		}
	})
}

// Package untar checks the names and the order of entries.
func TestRefused(t *testing.T) {
	attr := file("f", "")
	attr.PAXRecords = map[string]string{"SCHILY.xattr.user.huge": strings.Repeat("x", 100)}
	acl := file("f", "")
	acl.PAXRecords = map[string]string{"SCHILY.xattr.system.posix_acl_access": "x"}
	for _, c := range []struct {
		name    string
		want    string
		entries []entry
	}{
		{"attributes", "extended attributes", []entry{attr}},
		{"access control list", "posix_acl_access", []entry{acl}},
		{"mount point", "not a directory", []entry{symlink("proc", "/")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := write(t, bytes.NewReader(archive(t, c.entries...)), "/proc")
			if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q %v, want one about %q", fault.KindOf(err), err, c.want)
			}
		})
	}
	t.Run("truncated", func(t *testing.T) {
		b := archive(t, file("a", strings.Repeat("a", 5000)))
		if _, err := write(t, bytes.NewReader(b[:3000])); fault.KindOf(err) != fault.Rejected {
			t.Errorf("a truncated stream: %v", err)
		}
	})
}

// FuzzWrite checks that what Write accepts is a sound file system.
func FuzzWrite(f *testing.F) {
	f.Add(archive(f, dir("b"), file("b/f", "x"), link("c", "b/f"), symlink("s", strings.Repeat("t", 100))))
	f.Add([]byte("not a tar"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		name, err := write(t, bytes.NewReader(stream))
		if err != nil {
			return
		}
		if out, err := tool("e2fsck", "-fn", name); err != nil {
			t.Fatalf("e2fsck: %v\n%s", err, out)
		}
	})
}
