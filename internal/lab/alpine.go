package lab

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// syntheticAlpineISO returns an ISO image like alpine-virt's, with a Debian kernel:
// boot/vmlinuz-virt, as zboot for arm64, and boot/modloop-virt, a SquashFS packed with xz
// and branch filters, of plain modules (not all) and firmware. The options are those of Alpine's
// scripts, update-kernel (alpine-conf, since 3.15) and mkimg.base.sh (aports).
func syntheticAlpineISO(t testing.TB, arch string) string {
	t.Helper()
	k := DebianKernel(t, arch)
	return once(t, arch, "alpine-virt-small.iso", func(ctx context.Context, temp string) (string, error) {
		iso := filepath.Join(temp, "made.iso")
		return iso, makeISO(ctx, k, arch, temp, iso)
	})
}

func makeISO(ctx context.Context, k Kernel, arch, tmp, out string) error {
	boot := filepath.Join(tmp, "iso", "boot")
	firmware := filepath.Join(tmp, "modloop", "modules", "firmware")
	if err := errors.Join(os.MkdirAll(filepath.Join(boot, "grub"), 0o755), os.MkdirAll(firmware, 0o755)); err != nil {
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
	if err := errors.Join(
		os.WriteFile(filepath.Join(boot, "vmlinuz-virt"), kernel, 0o644),
		os.WriteFile(filepath.Join(boot, "grub", "efi.img"), make([]byte, 1440<<10), 0o644),
		os.WriteFile(filepath.Join(firmware, "regulatory.db"), []byte("RGDB"), 0o644),
		copyModules(ctx, k, filepath.Join(tmp, "modloop", "modules", k.Release)),
	); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mksquashfs", filepath.Join(tmp, "modloop"), filepath.Join(boot, "modloop-virt"), "-comp", "xz", "-exit-on-error", "-Xbcj", filter, "-no-progress", "-quiet"},
		{"xorriso", "-as", "mkisofs", "-quiet", "-output", out, "-full-iso9660-filenames", "-joliet", "-rational-rock", "-sysid", "LINUX", "-volid", "alpine-virt 0.0.1 " + arch,
			"-efi-boot-part", "--efi-boot-image", "-e", "boot/grub/efi.img", "-no-emul-boot", "-follow-links", filepath.Join(tmp, "iso")},
	} {
		if text, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s (`make setup` installs it): %w: %s", args[0], err, text)
		}
	}
	return nil
}

// largeModule is where modules that no image needs are too large for the ISO image: a fifth of all,
// with four fifths of the bytes, which take mksquashfs two minutes.
const largeModule = 64 << 10

func copyModules(ctx context.Context, k Kernel, dir string) error {
	needed, err := k.needed(ctx)
	if err != nil {
		return err
	}
	return k.eachModuleFile(func(name string, b []byte) error {
		if len(b) > largeModule && !needed(name) {
			return nil
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
