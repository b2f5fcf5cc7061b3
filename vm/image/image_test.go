package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
)

// builtin lists the modules of a kernel that has them all built in.
const builtin = `kernel/virtio_pci.ko
kernel/virtio_console.ko
kernel/virtio_blk.ko
kernel/vmw_vsock_virtio_transport.ko
kernel/ext4.ko
kernel/quota_v2.ko
kernel/overlay.ko
kernel/virtiofs.ko
kernel/virtio_net.ko
kernel/af_packet.ko
kernel/veth.ko
kernel/nf_tables.ko
`

func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// newPack seals a pack with the given files.
func newPack(t testing.TB, arch vm.Arch, kernel, modules, root []byte) pack.Pack {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"vmlinuz": kernel, "modules.tar": modules, "root.tar": root} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := pack.Seal(t.Context(), dir, pack.Manifest{
		Name: "test-1-" + string(arch), Distribution: "test", Version: "1", Arch: arch, PackageTool: pack.APK,
		Kernel: pack.File{Name: "vmlinuz"}, Modules: pack.File{Name: "modules.tar"}, Root: pack.File{Name: "root.tar"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func smallPack(t testing.TB, root string) pack.Pack {
	return newPack(t, vm.AMD64, bytes.Repeat([]byte("kernel"), 500_000),
		archive(t, map[string]string{"lib/modules/6.1.0/modules.builtin": builtin}), archive(t, map[string]string{"etc/os-release": root}))
}

func newStore(t testing.TB, init string) image.Store {
	return image.Store{Dir: t.TempDir(), Programs: only(init)}
}

func ensure(t testing.TB, s image.Store, p pack.Pack) image.Image {
	t.Helper()
	i, err := s.Ensure(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestSameBytesEverywhere(t *testing.T) {
	p := smallPack(t, "one")
	a, b := ensure(t, newStore(t, "init"), p), ensure(t, newStore(t, "init"), p)
	if a.Digest != b.Digest {
		t.Errorf("two stores made %s and %s", a.Digest, b.Digest)
	}
	for _, pair := range [][2]string{{a.Kernel, b.Kernel}, {a.Initrd, b.Initrd}, {a.Base, b.Base}} {
		if !bytes.Equal(read(t, pair[0]), read(t, pair[1])) {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
	if !bytes.Equal(read(t, a.Kernel), read(t, p.Path(p.Manifest.Kernel))) {
		t.Error("the kernel is not the pack's")
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBuiltOnce(t *testing.T) {
	s, p := newStore(t, "init"), smallPack(t, "one")
	first := ensure(t, s, p)
	// Without the pack's files, nothing can be built.
	for _, f := range p.Manifest.Files() {
		if err := os.Remove(p.Path(f)); err != nil {
			t.Fatal(err)
		}
	}
	if second := ensure(t, s, p); second.Digest != first.Digest || second.Base != first.Base {
		t.Errorf("first %v, then %v", first, second)
	}
}

func TestNewGuestProgramKeepsTheBase(t *testing.T) {
	s, p := newStore(t, "init"), smallPack(t, "one")
	old := ensure(t, s, p)
	s.Programs = only("newer init")
	now := ensure(t, s, p)
	if now.Base != old.Base || now.Initrd == old.Initrd || now.Digest == old.Digest {
		t.Errorf("old %v, new %v", old, now)
	}
}

func TestOldImagesGo(t *testing.T) {
	s := newStore(t, "init")
	var images []image.Image
	for i := range 4 {
		images = append(images, ensure(t, s, smallPack(t, fmt.Sprint("release ", i))))
		time.Sleep(10 * time.Millisecond) // for the times of use to differ
	}
	for i, want := range []bool{false, false, true, true} {
		if _, err := os.Stat(images[i].Base); (err == nil) != want {
			t.Errorf("base %d: %v, want it kept: %v", i, err, want)
		}
	}
}

var digests = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// folders lists a store.
func folders(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// TestMissingModule checks the advice for packs without required modules.
func TestMissingModule(t *testing.T) {
	for _, module := range []string{"overlay", "nf_tables"} {
		list := strings.Replace(builtin, "kernel/"+module+".ko\n", "", 1)
		p := newPack(t, vm.AMD64, []byte("kernel"), archive(t, map[string]string{"lib/modules/6.1.0/modules.builtin": list}), archive(t, nil))
		_, err := newStore(t, "init").Ensure(t.Context(), p, nil)
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), module) {
			t.Errorf("without %s, Ensure = %v", module, err)
		}
		if advice := fault.AdviceOf(err); !strings.Contains(advice, "pack remove test-1-amd64") || !strings.Contains(advice, "pack build alpine") {
			t.Errorf("without %s the advice is %q", module, advice)
		}
	}
}

func TestNoGuestProgram(t *testing.T) {
	none := errors.New("no program")
	s := image.Store{Dir: t.TempDir(), Programs: func(vm.Arch) (map[string][]byte, error) { return nil, none }}
	if _, err := s.Ensure(t.Context(), smallPack(t, "one"), nil); !errors.Is(err, none) {
		t.Errorf("Ensure = %v", err)
	}
}

func TestCancelled(t *testing.T) {
	s, p := newStore(t, "init"), smallPack(t, "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Ensure(ctx, p, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Ensure = %v", err)
	}
	ensure(t, s, p)
	i := ensure(t, s, p)
	if err := i.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify = %v", err)
	}
}

// only returns the programs of an initramfs that has only init.
func only(init string) func(vm.Arch) (map[string][]byte, error) {
	return func(vm.Arch) (map[string][]byte, error) { return map[string][]byte{"init": []byte(init)}, nil }
}
