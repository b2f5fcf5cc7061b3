package alpine_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/vm/image/alpine"
)

// image makes an image of the files with xorriso.
func image(t testing.TB, files map[string]string, options ...string) []byte {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "image.iso")
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"-as", "mkisofs", "-quiet", "-o", out}, append(options, dir)...)
	if text, err := exec.Command("xorriso", args...).CombinedOutput(); err != nil {
		t.Fatalf("xorriso (of the package xorriso): %v\n%s", err, text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t testing.TB, b []byte) *alpine.Image {
	t.Helper()
	i, err := alpine.New(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestFindsFiles(t *testing.T) {
	long := strings.Repeat("a long name ", 20)
	files := map[string]string{
		"boot/vmlinuz-virt": strings.Repeat("kernel", 10_000), "boot/modloop-virt": "modules", "Empty": "",
		"a/b/c/d/e/f/g/deep": "deep", "many/" + long: "long",
	}
	for i := range 300 { // a folder of many sectors
		files["many/"+strings.Repeat("n", i/2)+string(rune('a'+i%26))] = "n"
	}
	for _, options := range []string{"-R", "-R -J", "-R -J -joliet-long -iso-level 3"} {
		i := open(t, image(t, files, strings.Fields(options)...))
		for name, want := range files {
			r, err := i.Open(name)
			if err != nil {
				t.Errorf("%s: %v", options, err)
				continue
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != want {
				t.Errorf("%s: %s: %d bytes, %v", options, name, len(got), err)
			}
		}
		for _, name := range []string{"boot/nothing", "nothing", "Empty/below", "BOOT/VMLINUZ-VIRT"} {
			if _, err := i.Open(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: Open(%q) = %v, want ErrNotExist", options, name, err)
			}
		}
		for _, name := range []string{"boot", "", "/boot", "../boot"} {
			if _, err := i.Open(name); err == nil {
				t.Errorf("%s: Open(%q) succeeds", options, name)
			}
		}
	}
}

func TestFindsPlainNames(t *testing.T) {
	// xorriso writes Rock Ridge always, so its names are made unreadable.
	b := bytes.ReplaceAll(image(t, map[string]string{"boot/kernel": "k"}), []byte("NM"), []byte("XX"))
	r, err := open(t, b).Open("boot/kernel")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "k" {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzImage writes over parts of a good image: a whole one as input would be
// mostly zeros, on which a fuzzer spends its time.
func FuzzImage(f *testing.F) {
	const name = "boot/vmlinuz-virt"
	good := image(f, map[string]string{name: "k", "boot/" + strings.Repeat("n", 240): "l"}, "-R")
	good = good[:min(len(good), 40*2048)]
	if _, err := open(f, good).Open(name); err != nil {
		f.Fatalf("the image is cut before its folders: %v", err)
	}
	f.Add(uint16(16*2048+156), []byte{34, 0, 19}) // the root's record
	f.Add(uint16(19*2048), []byte{0xff})          // a folder's first entry
	f.Add(uint16(20*2048+34), []byte("NM\x05\x01\x00CE\x1c\x01"))
	f.Fuzz(func(t *testing.T, at uint16, patch []byte) {
		b := bytes.Clone(good)
		copy(b[at:], patch)
		i, err := alpine.New(bytes.NewReader(b))
		if err != nil {
			return
		}
		if r, err := i.Open(name); err == nil {
			io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		}
	})
}
