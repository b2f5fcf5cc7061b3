package lab

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
)

// images returns the folder of a pack's images, which tests share. It belongs to this
// checkout: others with other guest programs would prune its images. Each pack has its own
// store, because a store keeps few images of a distribution. Tests that damage or remove
// images use their own folder.
func images(t testing.TB, p pack.Pack) string {
	t.Helper()
	dir := filepath.Join(Root(t), ".build", "images", p.Digest().String())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Image returns the image of a pack with the built-in guest program.
func Image(t testing.TB, p pack.Pack) image.Image {
	t.Helper()
	store := image.Store{Dir: images(t, p), Programs: embedded.Programs[vm.Arch]}
	i, err := store.Ensure(t.Context(), p, nil)
	if err != nil {
		t.Fatalf("lab: image of %s: %v\n%s", p.Manifest.Name, err, fault.AdviceOf(err))
	}
	return i
}

// ShareImages adds the pack's image to a new home as hard links, so that the home does not
// build it. It does nothing on another file system.
func ShareImages(t testing.TB, home config.Home, p pack.Pack) {
	t.Helper()
	i := Image(t, p)
	for _, part := range []string{filepath.Dir(i.Kernel), filepath.Dir(i.Base)} {
		rel, err := filepath.Rel(images(t, p), part)
		if err != nil {
			t.Fatal(err)
		}
		if err := linkFiles(part, filepath.Join(home.Images(), rel)); errors.Is(err, syscall.EXDEV) {
			if err := os.RemoveAll(home.Images()); err != nil {
				t.Fatal(err)
			}
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// linkFiles creates a folder with hard links to the files of another.
func linkFiles(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		err = errors.Join(err, os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
	return err
}
