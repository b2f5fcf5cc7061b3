package squashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/image/squashfs"
)

// tree creates a folder with files of each form in the format, and returns them.
func tree(t testing.TB) (dir string, files map[string][]byte) {
	t.Helper()
	dir = t.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 300_000)
	random.Read(noise)
	files = map[string][]byte{
		"empty":              {},
		"small":              []byte("a file that ends in a fragment"),
		"dir/sub/other":      []byte("another"),
		"dir/noise":          noise,                               // stored, not compressed
		"dir/text":           bytes.Repeat([]byte("text "), 1e5),  // several blocks and a fragment
		"dir/whole":          bytes.Repeat([]byte{7}, 128<<10),    // a block exactly
		"dir/hole":           append(make([]byte, 1<<20), "x"...), // sparse blocks
		"names/Ünïcode name": []byte("u"),
	}
	for i := range 300 { // more than one run of entries
		files["many/"+strings.Repeat("n", i%200)+string(rune('a'+i%26))+string(rune('a'+i/26))] = []byte{byte(i)}
	}
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../small", filepath.Join(dir, "dir", "link")); err != nil {
		t.Fatal(err)
	}
	return dir, files
}

func squash(t testing.TB, dir string, options ...string) []byte {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if !slices.Contains(options, "-comp") {
		options = append(options, "-comp", "xz")
	}
	args := append([]string{dir, image, "-noappend", "-no-progress", "-quiet", "-all-root"}, options...)
	if out, err := exec.Command("mksquashfs", args...).CombinedOutput(); err != nil {
		t.Fatalf("mksquashfs (of the package squashfs-tools): %v\n%s", err, out)
	}
	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// read returns the files of an image.
func read(b []byte) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := squashfs.Walk(io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))), func(name string, size int64, content io.Reader) error {
		got, err := io.ReadAll(content)
		files[name] = got
		if err == nil && int64(len(got)) != size {
			err = fmt.Errorf("%s has %d bytes, not %d", name, len(got), size)
		}
		return err
	})
	return files, err
}

func TestReadsWhatMksquashfsWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("compresses in many ways")
	}
	dir, files := tree(t)
	for _, options := range []string{
		"", "-comp gzip", "-comp zstd -b 1M", "-Xbcj x86", "-Xbcj arm,armthumb -b 1M", "-noI -noD -noF", "-no-fragments -b 4096", "-always-use-fragments",
	} {
		got, err := read(squash(t, dir, strings.Fields(options)...))
		if err != nil {
			t.Fatalf("%s: %v", options, err)
		}
		if !maps.EqualFunc(got, files, bytes.Equal) {
			t.Errorf("%q: the %d files differ from the %d that were packed", options, len(got), len(files))
		}
	}
}

// TestReadsKernelModules reads code of each architecture with the filters that Alpine uses for it.
func TestReadsKernelModules(t *testing.T) {
	for arch, filter := range map[string]string{"amd64": "x86", "arm64": "arm,armthumb"} {
		readsModules(t, filepath.Join(lab.DebianKernel(t, arch).Modules, "kernel", "crypto"), filter)
	}
}

func readsModules(t *testing.T, dir, filter string) {
	t.Helper()
	got, err := read(squash(t, dir, "-Xbcj", filter))
	if err != nil || len(got) < 30 {
		t.Fatalf("%d files, %v", len(got), err)
	}
	for name, b := range got {
		if want, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s differs from what was packed (%v)", name, err)
		}
	}
}

func TestRefusesOtherCompressions(t *testing.T) {
	dir, _ := tree(t)
	if _, err := read(squash(t, dir, "-comp", "lz4")); err == nil || !strings.Contains(err.Error(), "only gzip, xz and zstd") {
		t.Errorf("lz4: %v", err)
	}
}

func TestRefusesTruncatedImages(t *testing.T) {
	dir, _ := tree(t)
	b := squash(t, dir)
	for _, n := range []int{0, 50, 96, 1000, len(b) / 2, len(b) - 5000} {
		if _, err := read(b[:n]); err == nil {
			t.Errorf("%d of %d bytes were read as an image", n, len(b))
		}
	}
}

func FuzzWalk(f *testing.F) {
	dir := f.TempDir()
	for name, content := range map[string]string{"a": "small", "d/b": strings.Repeat("text ", 3000), "d/c": ""} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, []byte(content), 0o644)
	}
	for _, options := range []string{"-b 4096 -noI -noF", "", "-noI"} {
		f.Add(squash(f, dir, append(strings.Fields(options), "-nopad")...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		visits, stop := 0, errors.New("enough")
		squashfs.Walk(io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))), func(_ string, _ int64, content io.Reader) error {
			if visits++; visits > 1000 {
				return stop
			}
			io.Copy(io.Discard, io.LimitReader(content, 1<<20))
			return nil
		})
	})
}
