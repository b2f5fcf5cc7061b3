package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/fetch"
)

// AlpineRelease serves a release like Alpine's host: a synthetic ISO image, and RootArchive.
func AlpineRelease(t testing.TB, arch vm.Arch) (alpine.Pins, *fetch.Client) {
	t.Helper()
	iso, root := read(t, syntheticAlpineISO(t, string(arch))), read(t, RootArchive(t, string(arch)))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := root
		if path.Ext(r.URL.Path) == ".iso" {
			b = iso
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}))
	t.Cleanup(s.Close)
	pins := alpine.Pins{
		Version: "0.0.1", Arch: arch,
		ISO:  fetch.File{URL: s.URL + "/alpine-virt.iso", Size: int64(len(iso)), SHA256: sha256.Sum256(iso)},
		Root: fetch.File{URL: s.URL + "/alpine-minirootfs.tar.gz", Size: int64(len(root)), SHA256: sha256.Sum256(root)},
	}
	return pins, &fetch.Client{Dir: t.TempDir(), Transport: s.Client().Transport, Pause: time.Millisecond}
}

// RootArchive returns Alpine's root file system, or one of busybox if that is missing.
func RootArchive(t testing.TB, arch string) string {
	t.Helper()
	if p := AlpineRoot(t, arch); p != "" {
		return p
	}
	busybox := Busybox(t, arch)
	return once(t, arch, "busybox-root.tar.gz", func(_ context.Context, temp string) (string, error) {
		plain, packed := filepath.Join(temp, "root.tar"), filepath.Join(temp, "root.tar.gz")
		if err := busyboxRoot(busybox, plain); err != nil {
			return "", err
		}
		b, err := os.ReadFile(plain)
		if err != nil {
			return "", err
		}
		return packed, os.WriteFile(packed, gzipped(b), 0o644)
	})
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
