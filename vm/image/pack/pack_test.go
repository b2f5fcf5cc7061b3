package pack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/pack"
)

// kernelHead returns a file that looks like a bzImage.
func kernelHead() []byte {
	b := make([]byte, 4096)
	b[0x1fe], b[0x1ff] = 0x55, 0xaa
	copy(b[0x202:], "HdrS")
	return b
}

// fill writes the files of a small pack.
func fill(_ context.Context, dir string) (pack.Manifest, error) {
	m := pack.Manifest{
		Distribution: "debian", Version: "12", Arch: vm.AMD64, PackageTool: pack.APT,
		Kernel: pack.File{Name: "kernel"}, Modules: pack.File{Name: "modules.tar"}, Root: pack.File{Name: "root.tar"},
		Origins: []pack.Origin{{Name: "a test"}},
	}
	return m, errors.Join(
		os.WriteFile(filepath.Join(dir, "kernel"), kernelHead(), 0o644),
		os.WriteFile(filepath.Join(dir, "modules.tar"), bytes.Repeat([]byte("m"), 10_000), 0o644),
		os.WriteFile(filepath.Join(dir, "root.tar"), bytes.Repeat([]byte("r"), 100_000), 0o644))
}

func build(t testing.TB, s pack.Store, name string) pack.Pack {
	t.Helper()
	p, err := s.Build(t.Context(), name, nil, fill)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func names(t testing.TB, s pack.Store) string {
	t.Helper()
	packs, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range packs {
		all = append(all, p.Manifest.Name)
	}
	return strings.Join(all, " ")
}

// flip changes a byte in the middle of a file.
func flip(t testing.TB, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	s := pack.Store{Dir: filepath.Join(t.TempDir(), "packs")}
	if got := names(t, s); got != "" {
		t.Errorf("an empty store lists %q", got)
	}
	if _, err := s.Get("a"); fault.KindOf(err) != fault.NotFound || fault.AdviceOf(err) == "" {
		t.Errorf("Get = %v, want not_found", err)
	}
	p := build(t, s, "b")
	build(t, s, "a")
	if err := p.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	again, err := s.Build(t.Context(), "b", nil, func(context.Context, string) (pack.Manifest, error) { panic("it is there") })
	if err != nil || again.Digest() != p.Digest() {
		t.Errorf("Build of what is there = %v", err)
	}
	if _, err := s.Build(t.Context(), "c", nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
		m, _ := fill(ctx, dir)
		return m, io.ErrUnexpectedEOF
	}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Build that fails = %v", err)
	}
	if _, err := s.Build(t.Context(), "d", nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
		m, _ := fill(ctx, dir)
		m.Arch = vm.ARM64
		return m, nil
	}); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "bzImage") {
		t.Errorf("Build with the other architecture's kernel = %v, want rejected", err)
	}
	if got := names(t, s); got != "a b" {
		t.Errorf("the store lists %q", got)
	}
	if err := s.Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "", "..", "../b", ".b.lock"} {
		if err := s.Remove(t.Context(), name); err == nil {
			t.Errorf("Remove(%q) succeeds", name)
		}
	}
	os.Remove(p.Path(p.Manifest.Root))
	packs, err := s.List()
	if len(packs) != 0 || err == nil || !strings.Contains(err.Error(), "root.tar") || !strings.Contains(fault.AdviceOf(err), "pack remove b`") {
		t.Errorf("List with a broken pack = %v, %v (%s)", packs, err, fault.AdviceOf(err))
	}
}

func TestOneBuildsAndOthersWait(t *testing.T) {
	s := pack.Store{Dir: t.TempDir()}
	var builds atomic.Int32
	done := make(chan error)
	for range 4 {
		go func() {
			_, err := s.Build(context.Background(), "a", nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
				builds.Add(1)
				return fill(ctx, dir)
			})
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := builds.Load(); n != 1 {
		t.Errorf("it was built %d times", n)
	}
}

func TestFlippedByte(t *testing.T) {
	for i, file := range []string{"kernel", "modules.tar", "root.tar"} {
		p := build(t, pack.Store{Dir: t.TempDir()}, "a")
		flip(t, filepath.Join(p.Dir, file))
		f := p.Manifest.Files()[i]
		got, err := pack.PinFile(t.Context(), p.Dir, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Open(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		_, read := io.Copy(io.Discard, r)
		r.Close()
		for what, err := range map[string]error{"Verify": p.Verify(t.Context(), nil), "reading": read} {
			for _, part := range []string{file, f.SHA256.String(), got.SHA256.String()} {
				if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), part) {
					t.Errorf("%s of %s: %v, want rejected, naming %s", what, file, err, part)
				}
			}
		}
	}
}

func TestExportAndImport(t *testing.T) {
	from, to := pack.Store{Dir: t.TempDir()}, pack.Store{Dir: t.TempDir()}
	p := build(t, from, "a")
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1.tar.zst"), filepath.Join(dir, "2.tar.zst")
	for _, path := range []string{one, two} {
		if err := pack.Export(t.Context(), p, path, nil); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := os.ReadFile(one)
	b, _ := os.ReadFile(two)
	if len(a) == 0 || !bytes.Equal(a, b) {
		t.Error("two exports differ")
	}
	for _, path := range []string{one, two, two} { // once more
		got, err := to.Import(t.Context(), path, nil)
		if err != nil || got.Digest() != p.Digest() || got.Dir != filepath.Join(to.Dir, "a") {
			t.Fatalf("Import(%s) = %v, %v", path, got, err)
		}
		if err := got.Verify(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if path != one {
			continue
		}
		if err := to.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("the export left %v", entries)
	}
	flip(t, p.Path(p.Manifest.Root))
	if err := pack.Export(t.Context(), p, filepath.Join(dir, "3"), nil); fault.KindOf(err) != fault.Rejected {
		t.Errorf("Export of a changed pack = %v, want rejected", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("the failed export left %v", entries)
	}
}

func TestImportRefuses(t *testing.T) {
	good := build(t, pack.Store{Dir: t.TempDir()}, "a")
	exported := export(t, good)
	z, err := os.ReadFile(exported)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := zstd.NewReader(nil)
	plain, err := d.DecodeAll(z, nil)
	if err != nil {
		t.Fatal(err)
	}
	member := func(h tar.Header, content string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h.Size = int64(len(content))
		w.WriteHeader(&h)
		io.WriteString(w, content)
		w.Flush()
		return b.Bytes()
	}
	body := plain[:len(plain)-1024]
	manifest, _ := os.ReadFile(filepath.Join(good.Dir, pack.ManifestName))
	for what, b := range map[string][]byte{
		"a flipped byte":       bytes.Replace(plain, []byte("rrrr"), []byte("rrrx"), 1),
		"a flipped zstd byte":  append(append(bytes.Clone(z[:len(z)/2]), z[len(z)/2]^1), z[len(z)/2+1:]...),
		"a cut archive":        plain[:len(plain)/2],
		"no manifest":          plain[4096:],
		"nothing":              nil,
		"text":                 []byte("hello"),
		"a missing file":       append(member(tar.Header{Name: pack.ManifestName}, string(manifest)), make([]byte, 1024)...),
		"a file too many":      append(append(bytes.Clone(body), member(tar.Header{Name: "extra"}, "x")...), make([]byte, 1024)...),
		"a file that leads up": append(append(bytes.Clone(body), member(tar.Header{Name: "../x"}, "x")...), make([]byte, 1024)...),
		"a link":               append(member(tar.Header{Name: pack.ManifestName}, string(manifest)), member(tar.Header{Name: "kernel", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")...),
	} {
		path := filepath.Join(t.TempDir(), "x.tar")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		s := pack.Store{Dir: t.TempDir()}
		_, err := s.Import(t.Context(), path, nil)
		if kind := fault.KindOf(err); kind != fault.Rejected && kind != fault.InvalidArgs {
			t.Errorf("%s: %v (%s), want rejected", what, err, kind)
		}
		if err == nil || !strings.Contains(err.Error(), path) || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v does not name the archive, or has no advice", what, err)
		}
		if left, _ := os.ReadDir(s.Dir); len(left) > 1 || len(left) == 1 && left[0].Name() != ".lock" {
			t.Errorf("%s: %s is left", what, left)
		}
	}

	s := pack.Store{Dir: t.TempDir()}
	mine, err := s.Build(t.Context(), "a", nil, func(ctx context.Context, dir string) (pack.Manifest, error) {
		m, err := fill(ctx, dir)
		return m, errors.Join(err, os.WriteFile(filepath.Join(dir, "root.tar"), []byte("mine"), 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
	refuses := func(what string) {
		t.Helper()
		if _, err := s.Import(t.Context(), exported, nil); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "pack remove a`") {
			t.Errorf("Import over another %s of the name = %v (%s), want rejected", what, err, fault.AdviceOf(err))
		}
	}
	refuses("pack")
	if err := mine.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := os.Remove(mine.Path(mine.Manifest.Kernel)); err != nil {
		t.Fatal(err)
	}
	refuses("broken pack")
	if _, err := os.Stat(mine.Path(mine.Manifest.Root)); err != nil {
		t.Error(err)
	}
}

func TestDigestCoversContent(t *testing.T) {
	p := build(t, pack.Store{Dir: t.TempDir()}, "a")
	same, other := p.Manifest, p.Manifest
	same.Name, same.Origins, same.Root.Name = "b", nil, "rootfs.tar"
	other.PackageTool = pack.APK
	if same.Digest() != p.Digest() || other.Digest() == p.Digest() {
		t.Error("the digest is of the wrong things")
	}
}
