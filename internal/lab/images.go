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

// images is the folder of the images of a pack, which tests share: an image is known
// by what it is made of, and to make one takes a while. It belongs to this checkout,
// since two with other guest programs would clear away each other's. A store keeps few
// images of one distribution, and tests have more packs of one than that: so each
// has a store of its own. A test that damages or removes images has a folder of its own.
func images(t testing.TB, p pack.Pack) string {
	t.Helper()
	dir := filepath.Join(Root(t), ".build", "images", p.Digest().String())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Image returns the image of a pack, with the guest program that is built in.
func Image(t testing.TB, p pack.Pack) image.Image {
	t.Helper()
	store := image.Store{Dir: images(t, p), Programs: embedded.Programs[vm.Arch]}
	i, err := store.Ensure(t.Context(), p, nil)
	if err != nil {
		t.Fatalf("lab: image of %s: %v\n%s", p.Manifest.Name, err, fault.AdviceOf(err))
	}
	return i
}

// ShareImages has a new home find the image of that pack made. It has files of its own,
// though not bytes: what it removes, others keep. On another file system it makes its own.
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

// linkFiles makes a folder with the files of another.
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
