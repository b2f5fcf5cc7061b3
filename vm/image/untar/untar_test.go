package untar_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/image/untar"
)

func archive(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func zstandard(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

func names(t testing.TB, b []byte) []string {
	t.Helper()
	r, err := untar.NewReader(bytes.NewReader(b), "a.tar")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []string
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h.Name)
	}
}

func TestParentsComeFirst(t *testing.T) {
	plain := archive(t,
		&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		&tar.Header{Name: "./usr/bin/sh", Size: 3, Mode: 0o4755},
		&tar.Header{Name: "./usr/bin/ash", Typeflag: tar.TypeLink, Linkname: "./usr/bin/sh"},
		&tar.Header{Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "/usr/bin"},
		&tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		&tar.Header{Name: "usr/", Typeflag: tar.TypeDir, Mode: 0o755},
	)
	want := ". usr usr/bin usr/bin/sh usr/bin/ash bin dev dev/null usr"
	for form, b := range map[string][]byte{"plain": plain, "gzip": gzipped(plain), "zstd": zstandard(plain)} {
		if got := strings.Join(names(t, b), " "); got != want {
			t.Errorf("%s: %s\nwant %s", form, got, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	dir := func(name string) *tar.Header { return &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
	link := func(name, to string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	hard := func(name, to string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}
	}
	file := func(name string) *tar.Header { return &tar.Header{Name: name, Size: 1} }
	for what, headers := range map[string][]*tar.Header{
		"an absolute name":               {file("/etc/passwd")},
		"a name that leads upwards":      {file("a/../../b")},
		"a harmless ..":                  {file("a/../b")},
		"a write through a link":         {link("a", "/etc"), file("a/passwd")},
		"a write through a deep link":    {dir("d"), link("d/a", "../.."), file("d/a/b/c")},
		"a write through a file":         {file("a"), file("a/b")},
		"a folder that turns to a link":  {dir("a"), link("a", "/")},
		"a link that turns to a folder":  {link("a", "/"), dir("a")},
		"an implied folder made a link":  {file("a/b"), link("a", "/")},
		"a file twice":                   {file("a"), file("a")},
		"a hard link to outside":         {hard("a", "../b")},
		"a hard link to an absolute one": {hard("a", "/etc/passwd")},
		"a hard link to a later target":  {hard("a", "b"), file("b")},
		"a hard link to a link":          {link("l", "/etc/passwd"), hard("a", "l")},
		"a hard link to a folder":        {dir("d"), hard("a", "d")},
		"a device outside dev":           {{Name: "x", Typeflag: tar.TypeBlock, Devmajor: 8}},
		"a device in a folder like dev":  {{Name: "devil/x", Typeflag: tar.TypeChar}},
		"a root that is a link":          {link(".", "/")},
		"a long part of a name":          {file(strings.Repeat("n", 256))},
		"a long name":                    {file(strings.Repeat("name/", 1000) + "x")},
		"an empty target":                {link("a", "")},
		"large attributes":               {{Name: "a", PAXRecords: map[string]string{"SCHILY.xattr.user.a": strings.Repeat("v", 5000)}}},
		"a large owner":                  {{Name: "a", Uid: 1 << 32}},
		"a global header":                {{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "b"}}},
	} {
		err := untar.Filter(t.Context(), io.Discard, bytes.NewReader(archive(t, headers...)), "a.tar")
		if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "a.tar") {
			t.Errorf("%s: %v, want rejected", what, err)
		}
	}
}

func TestRefusesBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("reads gigabytes")
	}
	zeros := func(compress func(io.Writer) io.WriteCloser) io.Reader {
		r, w := io.Pipe()
		go func() {
			z := compress(w)
			out := tar.NewWriter(z)
			out.WriteHeader(&tar.Header{Name: "bomb", Typeflag: tar.TypeReg, Size: 1 << 30})
			block := make([]byte, 1<<20)
			for range 1 << 10 {
				if _, err := out.Write(block); err != nil {
					return
				}
			}
			out.Close()
			z.Close()
			w.Close()
		}()
		t.Cleanup(func() { r.Close() })
		return r
	}
	for form, r := range map[string]io.Reader{
		"gzip": zeros(func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed); return z }),
		"zstd": zeros(func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }),
	} {
		var n countingWriter
		err := untar.Filter(t.Context(), &n, r, "bomb.tar")
		if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "times its size") {
			t.Errorf("%s: %v, want rejected for its ratio", form, err)
		}
		if n > 100<<20 {
			t.Errorf("%s: %d bytes came out before it was refused", form, n)
		}
	}
	tail := append(archive(t), make([]byte, 80<<20)...)
	if err := untar.Filter(t.Context(), io.Discard, bytes.NewReader(gzipped(tail)), "tail.tar"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a bomb behind the end: %v, want rejected", err)
	}
}

func TestRefusesLongNames(t *testing.T) {
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	for i := range 10 { // each with 2000 missing parents
		if err := out.WriteHeader(&tar.Header{Name: strconv.Itoa(i) + strings.Repeat("/n", 2000), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := untar.NewReader(&packed, "names.tar")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for err == nil {
		_, err = r.Next()
	}
	if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "the names") {
		t.Errorf("%v, want rejected for its names", err)
	}
}

type countingWriter int64

func (n *countingWriter) Write(p []byte) (int, error) {
	*n += countingWriter(len(p))
	return len(p), nil
}

func TestFilterKeepsOnlySomeMetadata(t *testing.T) {
	in := archive(t, &tar.Header{
		Name: "a", Size: 2, Mode: 0o6755, Uid: 70000, Gid: 3, Uname: "eve", ModTime: time.Unix(1234567890, 5), Format: tar.FormatPAX,
		PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00", "comment": "c", "atime": "7"},
	})
	var once, twice bytes.Buffer
	if err := untar.Filter(t.Context(), &once, bytes.NewReader(in), "a.tar"); err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(bytes.NewReader(once.Bytes())).Next()
	if err != nil {
		t.Fatal(err)
	}
	if h.Mode != 0o6755 || h.Uid != 70000 || h.Gid != 3 || h.Uname != "" || !h.ModTime.Equal(time.Unix(1234567890, 0)) ||
		h.PAXRecords["SCHILY.xattr.security.capability"] != "\x01\x00" || h.PAXRecords["comment"] != "" || !h.AccessTime.IsZero() {
		t.Errorf("the header became %+v", h)
	}
	if err := untar.Filter(t.Context(), &twice, bytes.NewReader(once.Bytes()), "a.tar"); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
		t.Errorf("filtering twice changes something: %v", err)
	}
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("input/output error")
	r := io.MultiReader(bytes.NewReader(archive(t, &tar.Header{Name: "a", Size: 4096})[:1000]), iotestErr{broken})
	if err := untar.Filter(t.Context(), io.Discard, r, "a.tar"); !errors.Is(err, broken) || fault.KindOf(err) == fault.Rejected {
		t.Errorf("Filter = %v, want the disk's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := untar.Filter(ctx, io.Discard, bytes.NewReader(archive(t, &tar.Header{Name: "a"})), "a.tar"); !errors.Is(err, context.Canceled) {
		t.Errorf("Filter with an ended context = %v", err)
	}
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

func TestReadsAlpinesRoot(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		name := lab.AlpineRoot(t, arch)
		if name == "" {
			continue
		}
		var out countingWriter
		if err := filterFile(t, &out, name); err != nil || out < 5<<20 {
			t.Errorf("%s: %d bytes, %v", name, out, err)
		}
	}
}

func filterFile(t testing.TB, w io.Writer, name string) error {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return untar.Filter(t.Context(), w, f, name)
}

func FuzzReader(f *testing.F) {
	f.Add(archive(f, &tar.Header{Name: "./", Typeflag: tar.TypeDir}, &tar.Header{Name: "a/b", Size: 3}, &tar.Header{Name: "a/c", Typeflag: tar.TypeLink, Linkname: "a/b"}))
	f.Add(gzipped(archive(f, &tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/"}, &tar.Header{Name: "l/x"})))
	f.Add(zstandard(archive(f, &tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3})))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := untar.NewReader(bytes.NewReader(b), "fuzz")
		if err != nil {
			return
		}
		defer r.Close()
		folders, files := map[string]bool{".": true}, map[string]bool{}
		for {
			h, err := r.Next()
			if err != nil {
				break
			}
			if h.Name != path.Clean(h.Name) || path.IsAbs(h.Name) || h.Name == ".." || strings.HasPrefix(h.Name, "../") {
				t.Fatalf("the name %q came out", h.Name)
			}
			if !folders[path.Dir(h.Name)] {
				t.Fatalf("%q came out before its folder", h.Name)
			}
			switch h.Typeflag {
			case tar.TypeDir:
				folders[h.Name] = true
			case tar.TypeReg:
				files[h.Name] = true
			case tar.TypeLink:
				if !files[h.Linkname] {
					t.Fatalf("%q came out as a hard link to %q", h.Name, h.Linkname)
				}
				files[h.Name] = true
			case tar.TypeChar, tar.TypeBlock:
				if !strings.HasPrefix(h.Name, "dev/") {
					t.Fatalf("the device %q came out", h.Name)
				}
			}
		}
		var once, twice bytes.Buffer
		if untar.Filter(t.Context(), &once, bytes.NewReader(b), "fuzz") != nil {
			return
		}
		if err := untar.Filter(t.Context(), &twice, bytes.NewReader(once.Bytes()), "fuzz"); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("what was filtered does not filter to itself: %v", err)
		}
	})
}
