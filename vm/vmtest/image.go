package vmtest

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/kernel"
)

// drivers are the modules that the test guest needs. A kernel may have some built in.
var drivers = []string{
	"virtio_pci", "virtio_console", "virtio_blk", "virtio_net", "virtio_rng",
	"virtiofs", "vmw_vsock_virtio_transport",
	"button", "evdev",
}

// Image is a kernel and an initramfs with the test guest in it.
type Image struct {
	Arch           vm.Arch
	Kernel, Initrd string
}

// initrds caches the initramfs of each architecture, which takes seconds to make, for all tests of
// this process.
var initrds struct {
	sync.Mutex
	made map[vm.Arch][]byte
}

// BuildImage makes an image in the test's temporary folder.
func BuildImage(t testing.TB, arch vm.Arch) Image {
	t.Helper()
	kernel := lab.DebianKernel(t, string(arch))
	initrds.Lock()
	defer initrds.Unlock()
	if initrds.made[arch] == nil {
		if initrds.made == nil {
			initrds.made = map[vm.Arch][]byte{}
		}
		initrds.made[arch] = buildInitrd(t, arch)
	}
	path := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(path, initrds.made[arch], 0o600); err != nil {
		t.Fatal(err)
	}
	return Image{arch, kernel.Image, path}
}

// ProgramImage makes an image whose initramfs has only a program, the main package at a path.
func ProgramImage(t testing.TB, arch vm.Arch, program string) Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(path, writeInitrd(t, buildProgram(t, arch, program), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return Image{arch, lab.DebianKernel(t, string(arch)).Image, path}
}

// buildInitrd makes the initramfs with the test guest and its modules.
func buildInitrd(t testing.TB, arch vm.Arch) []byte {
	t.Helper()
	p := lab.BusyboxPack(t, string(arch))
	walk := func(visit func(*tar.Header, io.Reader) error) error {
		return p.Walk(t.Context(), p.Manifest.Modules, visit)
	}
	tree, err := kernel.ReadModules(t.Context(), walk, drivers...)
	if err != nil {
		t.Fatal(err)
	}
	order, err := tree.Order(slices.DeleteFunc(slices.Clone(drivers), func(name string) bool { return !tree.Has(name) })...)
	if err != nil {
		t.Fatal(err)
	}

	return writeInitrd(t, buildProgram(t, arch, "osaurus-sandbox/vm/vmtest/testguest"), order)
}

// writeInitrd makes an initramfs of a program and modules.
func writeInitrd(t testing.TB, program []byte, modules []kernel.Module) []byte {
	t.Helper()
	var entries []image.CPIOEntry
	for _, d := range []string{"dev", "proc", "sys", "tmp", "mod", "mnt"} {
		entries = append(entries, image.CPIOEntry{Name: d, Mode: image.CPIODir | 0o755})
	}
	file := func(name string, mode uint32, data []byte) {
		entries = append(entries, image.CPIOEntry{Name: name, Mode: image.CPIOFile | mode, Data: data})
	}
	entries = append(entries, // Go's runtime needs these two
		image.CPIOEntry{Name: "dev/console", Mode: image.CPIODevice | 0o600, Major: 5, Minor: 1},
		image.CPIOEntry{Name: "dev/null", Mode: image.CPIODevice | 0o666, Major: 1, Minor: 3})
	file("init", 0o755, program)
	var names []string
	for _, m := range modules {
		names = append(names, m.Name)
		file("mod/"+m.Name, 0o644, m.Data)
	}
	file("mod/order", 0o644, []byte(strings.Join(names, "\n")))
	var b bytes.Buffer
	if err := image.WriteCPIO(&b, entries); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func buildProgram(t testing.TB, arch vm.Arch, path string) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "testguest")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, path)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+string(arch))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", path, err, out)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
