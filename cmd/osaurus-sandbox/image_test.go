package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
)

// A changed byte is refused before the command runs, whenever it is found, and
// the advice that is given mends it.
func TestChangedImage(t *testing.T) {
	home := bareHome(t)
	buildPackImage(t)
	// The kernel is read before the start, the base beside it.
	for _, pattern := range []string{"boot/*/vmlinux", "base/*/initfs.ext4"} {
		found, _ := filepath.Glob(filepath.Join(home.Images(), pattern))
		if len(found) != 1 {
			t.Fatalf("%s: %v", pattern, found)
		}
		flip(t, found[0])
		code, out, said := bootAs(t, "--", "echo", "it runs")
		if code != exitSandbox || out != "" || !strings.Contains(said, found[0]) || !strings.Contains(said, "pack build") {
			t.Errorf("boot of a changed %s: exit code %d, %q\n%s", found[0], code, out, said)
		}
		buildPackImage(t)
	}
	// What was mended boots, and knows what it has not.
	if code, _, said := bootAs(t, "--timings", "--", "no-such-command"); code != exitNoCommand || !strings.Contains(said, "no-such-command") || !strings.Contains(said, "power off") {
		t.Errorf("boot of what was mended: exit code %d\n%s", code, said)
	}
	if left, err := os.ReadDir(home.Run()); err != nil || len(left) != 1 {
		t.Errorf("left in run: %v, %v", left, err)
	}
}

// An image that lacks a file is built again; one that just cannot be read is not.
func TestMendedImage(t *testing.T) {
	home := bareHome(t)
	buildPackImage(t)
	for _, pattern := range []string{"boot/*/vmlinux", "base/*/initfs.ext4"} {
		found, _ := filepath.Glob(filepath.Join(home.Images(), pattern))
		if len(found) != 1 {
			t.Fatalf("%s: %v", pattern, found)
		}
		if err := os.Remove(found[0]); err != nil {
			t.Fatal(err)
		}
		buildPackImage(t)
		if _, err := os.Stat(found[0]); err != nil {
			t.Error(err)
		}
	}

	store := image.Store{Dir: home.Images(), Programs: embedded.Programs[vm.Arch]}
	i, err := store.Ensure(t.Context(), lab.BusyboxPack(t, "amd64"), nil)
	if err != nil {
		t.Fatal(err)
	}
	// An error as that of too many open files, which stays until it is mended.
	if err := errors.Join(os.Rename(i.Kernel, i.Kernel+".kept"), os.Symlink(filepath.Base(i.Kernel), i.Kernel)); err != nil {
		t.Fatal(err)
	}
	if code, _, said := sandbox(t, "pack", "build"); code == exitOK || !strings.Contains(said, i.Kernel) || !strings.Contains(said, "left as it is") {
		t.Errorf("pack build with a kernel that cannot be opened: exit code %d\n%s", code, said)
	}
	if err := os.Rename(i.Kernel+".kept", i.Kernel); err != nil {
		t.Fatal(err)
	}
	if err := i.Verify(t.Context()); err != nil {
		t.Errorf("what was whole: %v", err)
	}
}

// buildPackImage builds the image, or mends it.
func buildPackImage(t *testing.T) {
	t.Helper()
	if code, _, said := sandbox(t, "pack", "build"); code != 0 {
		t.Fatalf("pack build: exit code %d\n%s", code, said)
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Where no mirror can be reached a bare image is built, and what it lacks is said.
func TestNoMirror(t *testing.T) {
	labHome(t)
	p, ok := lab.AlpinePack(t, "arm64")
	if !ok {
		return // the lab has said so, loudly
	}
	// The guest's own address: nobody answers there.
	if code, _, said := sandbox(t, "config", "set", "toolbox=jq,git", "mirrors=http://127.0.0.1:9/alpine"); code != 0 {
		t.Fatal(said)
	}
	// To look for a mirror it boots the bare image.
	code, out, said := sandbox(t, "pack", "build", p.Dir, "--arch", "arm64")
	if code != 0 || out != p.Manifest.Name+"\n" || !strings.Contains(said, "jq git") || !strings.Contains(said, "127.0.0.1:9") || !strings.Contains(said, "bare image works") {
		t.Errorf("pack build: exit code %d, %q\n%s", code, out, said)
	}
	// So what boot says of it is heard without one more machine.
	code, _, said = bootAs(t, "--pack", p.Dir, "--arch", "arm64", "--share", "/no/such:x", "--", "true")
	if code != exitSandbox || !strings.Contains(said, "jq git") || !strings.Contains(said, "/no/such") {
		t.Errorf("boot: exit code %d\n%s", code, said)
	}
}
