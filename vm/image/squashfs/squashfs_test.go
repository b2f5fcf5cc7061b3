package squashfs_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/image/squashfs"
)

// tree makes a folder with one of everything that the format treats in its
// own way and returns its files.
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

func open(t testing.TB, b []byte) *squashfs.FS {
	t.Helper()
	f, err := squashfs.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReadsWhatMksquashfsWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("compresses in a dozen ways")
	}
	dir, files := tree(t)
	var all []string
	for name := range files {
		all = append(all, name)
	}
	for _, options := range []string{
		"-comp gzip", "-comp zstd", "-comp xz", "-comp xz -Xbcj x86", "-comp xz -Xbcj arm,armthumb -b 1M", "-comp gzip -noI -noD -noF",
		"-comp gzip -no-fragments -b 4096", "-comp zstd -always-use-fragments",
	} {
		f := open(t, squash(t, dir, strings.Fields(options)...))
		for name, want := range files {
			if got, err := fs.ReadFile(f, name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s: %d bytes, %v", options, name, len(got), err)
			}
		}
		if target, err := fs.ReadLink(f, "dir/link"); err != nil || target != "../small" {
			t.Errorf("%s: the link leads to %q, %v", options, target, err)
		}
		for _, name := range []string{"nothing", "small/below", "dir/nothing"} {
			if _, err := f.Open(name); err == nil || name != "small/below" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: Open(%s) = %v", options, name, err)
			}
		}
		if options == "-comp zstd" {
			if err := fstest.TestFS(f, all...); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestReadsKernelModulesAsAlpinePacksThem(t *testing.T) {
	modules := filepath.Join(lab.DebianKernel(t, "amd64").Modules, "kernel", "crypto")
	f := open(t, squash(t, modules, "-comp", "xz", "-Xbcj", "x86"))
	if got, want := sum(t, f), sum(t, os.DirFS(modules)); got != want {
		t.Error("the modules that were read are not those that were packed")
	}
}

// sum is a digest over the names and contents of all files.
func sum(t testing.TB, f fs.FS) [32]byte {
	t.Helper()
	h := sha256.New()
	files := 0
	err := fs.WalkDir(f, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		io.WriteString(h, name)
		r, err := f.Open(name)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(h, r)
		return err
	})
	if err != nil || files < 30 {
		t.Fatalf("%d files, %v", files, err)
	}
	return [32]byte(h.Sum(nil))
}

func TestRefusesWhatIsCut(t *testing.T) {
	dir, _ := tree(t)
	b := squash(t, dir)
	for _, n := range []int{0, 50, 96, 1000, len(b) / 2, len(b) - 5000} {
		if _, err := squashfs.New(bytes.NewReader(b[:n]), int64(n)); err == nil {
			t.Errorf("%d of %d bytes were taken for an image", n, len(b))
		}
	}
}

func FuzzFS(f *testing.F) {
	dir := f.TempDir()
	for name, content := range map[string]string{"a": "small", "d/b": strings.Repeat("text ", 3000), "d/c": ""} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, []byte(content), 0o644)
	}
	for _, options := range []string{"-comp gzip -noI -noF -b 4096", "-comp xz", "-comp zstd -noI"} {
		f.Add(squash(f, dir, append(strings.Fields(options), "-nopad")...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		image, err := squashfs.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		visits := 0
		fs.WalkDir(image, ".", func(name string, d fs.DirEntry, err error) error {
			if visits++; visits > 1000 {
				return fs.SkipAll
			}
			if err != nil || d.IsDir() {
				return nil
			}
			if r, err := image.Open(name); err == nil {
				io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			}
			return nil
		})
	})
}
