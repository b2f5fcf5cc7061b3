package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/image/pack"
)

// TestBoot boots real kernels, which unpack the initramfs, load the modules in order, mount
// the base, and mount and grow a data disk.
func TestBoot(t *testing.T) {
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		t.Run(string(arch), func(t *testing.T) {
			store := image.Store{Dir: t.TempDir(), Programs: probe(t)}
			i := ensure(t, store, debianPack(t, arch))
			if info, err := os.Stat(i.Initrd); err == nil {
				t.Logf("initramfs of %d kB", info.Size()>>10)
			}
			data := filepath.Join(t.TempDir(), "data.ext4")
			if err := disk.Create(data, 8<<30); err != nil {
				t.Fatal(err)
			}
			for round, want := range []string{
				"grown to 7994 MiB",
				"grown to 40247 MiB",
			} {
				console := boot(t, i, data)
				for _, want := range []string{
					want, "PROBE kept " + []string{"\n", "written"}[round], "prjquota",
					"PROBE many 3000", "PROBE second content of first",
					"file su mode=104755 owner=70000:80000 links=1 size=2 rdev=0 mtime=1000000000",
					"file first mode=100644 owner=0:0 links=2 size=16",
					"file dev/null mode=20666 owner=0:0 links=1 size=0 rdev=103",
					"file far mode=120777 owner=0:0 links=1 size=200", "target=200",
					"file many/file-2999 mode=100644",
					"file labelled mode=100644 owner=0:0 links=1 size=0 rdev=0 mtime=1000000000 xattr=20",
					"file workspace mode=40755",
				} {
					if !strings.Contains(console, want) {
						t.Errorf("round %d lacks %q", round, want)
					}
				}
				if strings.Contains(console, "PROBE error") || t.Failed() {
					t.Fatalf("console:\n%s", console)
				}
				for line := range strings.Lines(console) {
					if strings.HasPrefix(line, "PROBE uptime") || strings.HasPrefix(line, "PROBE") && strings.Contains(line, " ms") {
						t.Log(strings.TrimSpace(line))
					}
				}
				if out, err := exec.Command("/usr/sbin/e2fsck", "-fn", data).CombinedOutput(); err != nil {
					t.Fatalf("e2fsck after round %d: %v\n%s", round, err, out)
				}
				info, err := os.Stat(data)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("the disk takes %d MB", info.Sys().(*syscall.Stat_t).Blocks*512>>20)
				if err := disk.Grow(data, 40<<30); err != nil {
					t.Fatal(err)
				}
			}
			if err := i.Verify(t.Context()); err != nil {
				t.Errorf("a machine has changed the image: %v", err)
			}
		})
	}
}

// probe builds init for the guests of tests.
func probe(t testing.TB) func(vm.Arch) (map[string][]byte, error) {
	return func(arch vm.Arch) (map[string][]byte, error) {
		out := filepath.Join(t.TempDir(), "probe")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "osaurus-sandbox/vm/image/internal/probe")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+string(arch))
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, text)
		}
		program, err := os.ReadFile(out)
		return map[string][]byte{"init": program}, err
	}
}

// debianPack returns a pack of a real kernel with its modules and hardRoot.
func debianPack(t testing.TB, arch vm.Arch) pack.Pack {
	t.Helper()
	p := lab.BusyboxPack(t, string(arch))
	return newPack(t, arch, read(t, p.Path(p.Manifest.Kernel)), read(t, p.Path(p.Manifest.Modules)), hardRoot(t))
}

func hardRoot(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content string) {
		h.Size, h.ModTime, h.Format = int64(len(content)), time.Unix(1e9, 0), tar.FormatPAX
		if h.Typeflag == 0 {
			h.Typeflag, h.Mode = tar.TypeReg, max(h.Mode, 0o644)
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "su", Mode: 0o4755, Uid: 70000, Gid: 80000}, "#!")
	add(tar.Header{Name: "first"}, "content of first")
	add(tar.Header{Name: "second", Typeflag: tar.TypeLink, Linkname: "first"}, "")
	add(tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3}, "")
	add(tar.Header{Name: "far", Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: strings.Repeat("f", 200)}, "")
	add(tar.Header{Name: "labelled", PAXRecords: map[string]string{"SCHILY.xattr.user.long": strings.Repeat("v", 20), "SCHILY.xattr.user.a": "b"}}, "")
	for i := range 3000 {
		add(tar.Header{Name: fmt.Sprintf("many/file-%d", i)}, "x")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// boot runs an image until it powers off and returns its console.
func boot(t testing.TB, i image.Image, data string) string {
	t.Helper()
	const limit = 10 * time.Minute // on a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	qemu, console := "qemu-system-x86_64", "ttyS0"
	args := []string{"-machine", "q35", "-cpu", "max"}
	if i.Arch == vm.ARM64 {
		qemu, console = "qemu-system-aarch64", "ttyAMA0"
		args = []string{"-machine", "virt", "-cpu", "cortex-a57"}
	}
	// One processor: QEMU 7.2's emulator can crash if another one writes to a device while
	// the first one assigns addresses.
	args = append(args, "-accel", "tcg", "-smp", "1", "-m", "512M", "-nodefaults", "-no-user-config", "-no-reboot",
		"-display", "none", "-serial", "stdio", "-kernel", i.Kernel, "-initrd", i.Initrd, "-append", "console="+console+" quiet panic=-1 no_timer_check")
	for n, drive := range []string{i.Base + ",readonly=on", data + ",discard=unmap,detect-zeroes=unmap"} {
		args = append(args, "-drive", fmt.Sprintf("if=none,id=d%d,format=raw,file=%s", n, drive), "-device", fmt.Sprintf("virtio-blk-pci,drive=d%d", n))
	}
	cmd := exec.CommandContext(ctx, qemu, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if the test is killed
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%v: install what the tests need with `make setup`", err)
	}
	text := strings.ReplaceAll(string(out), "\r", "")
	if err != nil {
		t.Fatalf("QEMU: %v\n%s", err, text)
	}
	return text
}
