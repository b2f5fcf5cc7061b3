package lab

import (
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/config"
)

// Images is a folder for images that tests may share: an image is known by what
// it is made of, and to make one takes a while. It belongs to this checkout,
// since two with other guest programs would clear away each other's. A test
// that damages or removes images has a folder of its own.
func Images(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(Root(t), ".build", "images")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ShareImages has a new home keep its images in that folder.
func ShareImages(t testing.TB, home config.Home) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(home.Images()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(Images(t), home.Images()); err != nil {
		t.Fatal(err)
	}
}
