package vmtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/kmods"
	"osaurus-sandbox/vm/image/newc"
)

// modules are what the test guest needs; those that a kernel has built in or
// lacks are left out.
var modules = []string{
	"virtio_pci", "virtio_console", "virtio_blk", "virtio_net", "virtio_rng",
	"virtiofs", "vmw_vsock_virtio_transport",
	"button", "evdev",
}

// Image is a kernel and an initramfs with the test guest in it.
type Image struct {
	Arch           vm.Arch
	Kernel, Initrd string
}

// BuildImage makes an image in the test's temporary folder.
func BuildImage(t testing.TB, arch vm.Arch) Image {
	t.Helper()
	kernel := lab.DebianKernel(t, string(arch))
	set, err := kmods.Scan(os.DirFS(kernel.Modules), ".")
	if err != nil {
		t.Fatal(err)
	}
	order, files, _, err := set.Order(modules...)
	if err != nil {
		t.Fatal(err)
	}

	var b bytes.Buffer
	w := newc.NewWriter(&b)
	add := func(e newc.Entry) {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"dev", "proc", "sys", "tmp", "mod", "mnt"} {
		add(newc.Entry{Name: d, Mode: newc.ModeDir | 0o755})
	}
	// Go's runtime needs these before it has run a line of ours.
	add(newc.Entry{Name: "dev/console", Mode: newc.ModeChar | 0o600, Major: 5, Minor: 1})
	add(newc.Entry{Name: "dev/null", Mode: newc.ModeChar | 0o666, Major: 1, Minor: 3})
	add(newc.Entry{Name: "init", Mode: newc.ModeReg | 0o755, Data: buildGuest(t, arch)})
	for name, content := range files {
		add(newc.Entry{Name: "mod/" + name, Mode: newc.ModeReg | 0o644, Data: content})
	}
	add(newc.Entry{Name: "mod/order", Mode: newc.ModeReg | 0o644, Data: []byte(strings.Join(order, "\n"))})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(initrd, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return Image{arch, kernel.Image, initrd}
}

func buildGuest(t testing.TB, arch vm.Arch) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "testguest")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "osaurus-sandbox/vm/vmtest/testguest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+string(arch))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build test guest: %v\n%s", err, out)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
