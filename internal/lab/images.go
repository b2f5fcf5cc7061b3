package lab

import (
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/guest/embedded"
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

// ShareImages has a new home, whose settings name that pack, keep its images there.
func ShareImages(t testing.TB, home config.Home, p pack.Pack) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(home.Images()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(images(t, p), home.Images()); err != nil {
		t.Fatal(err)
	}
}
