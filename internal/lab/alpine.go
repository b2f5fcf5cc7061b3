package lab

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"osaurus-sandbox/vm/image/kernel"
)

// syntheticAlpineISO returns an ISO image like alpine-virt's, with a Debian kernel:
// boot/vmlinuz-virt, as zboot for arm64, and boot/modloop-virt, a SquashFS packed with xz
// and a branch filter, of modules packed with gzip.
func syntheticAlpineISO(t testing.TB, arch string) string {
	t.Helper()
	k := DebianKernel(t, arch)
	return once(t, arch, "alpine-virt.iso", func(ctx context.Context, temp string) (string, error) {
		iso := filepath.Join(temp, "made.iso")
		return iso, makeISO(ctx, k, arch, temp, iso)
	})
}

func makeISO(ctx context.Context, k Kernel, arch, tmp, out string) error {
	boot := filepath.Join(tmp, "iso", "boot")
	if err := os.MkdirAll(boot, 0o755); err != nil {
		return err
	}
	kernel, err := os.ReadFile(k.Image)
	if err != nil {
		return err
	}
	filter := "x86"
	if arch == "arm64" {
		kernel, filter = Zboot(gzipped(kernel), "gzip"), "arm,armthumb"
	}
	if err := os.WriteFile(filepath.Join(boot, "vmlinuz-virt"), kernel, 0o644); err != nil {
		return err
	}
	if err := packModules(k, filepath.Join(tmp, "modloop", "modules", k.Release)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mksquashfs", filepath.Join(tmp, "modloop"), filepath.Join(boot, "modloop-virt"), "-comp", "xz", "-Xbcj", filter, "-all-root", "-noappend", "-no-progress", "-quiet"},
		{"xorriso", "-as", "mkisofs", "-quiet", "-R", "-J", "-o", out, filepath.Join(tmp, "iso")},
	} {
		if text, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s (`make setup` installs it): %w: %s", args[0], err, text)
		}
	}
	return nil
}

// packModules writes a kernel's modules like Alpine, as .ko.gz files.
func packModules(k Kernel, dir string) error {
	return k.eachModuleFile(func(name string, b []byte) error {
		if _, _, ok := kernel.ModuleName(name); ok {
			name, b = name+".gz", gzipped(b)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, b, 0o644)
	})
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b) // a Buffer takes everything
	w.Close()
	return out.Bytes()
}
