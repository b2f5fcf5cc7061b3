package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if code, _, said := bootAs(t, "--", "no-such-command"); code != exitNoCommand || !strings.Contains(said, "no-such-command") {
		t.Errorf("boot of what was mended: exit code %d\n%s", code, said)
	}
	wantNoBoots(t, home)
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
