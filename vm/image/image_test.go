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
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
)

// builtin is a kernel without modules.
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
kernel/nft_ct.ko
kernel/nft_connlimit.ko
kernel/nft_chain_nat.ko
kernel/nft_masq.ko
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

// newPack seals a pack of the given files.
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
	// Without the pack's files it can only be what is there already.
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

// folders lists what is in a store.
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

// A guest cannot do without these, and whoever has such a pack is told how to come by a newer one.
func TestMissingModule(t *testing.T) {
	for _, module := range []string{"overlay", "nft_connlimit"} {
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

func TestOneBuildsTheOthersWait(t *testing.T) {
	s, p := newStore(t, "init"), smallPack(t, "one")
	var built, waited atomic.Int32
	report := progress.Func(func(e progress.Event) {
		if e.Finished && e.Step == "build initramfs" {
			built.Add(1)
		}
		if strings.Contains(e.Note, "waiting for") {
			waited.Add(1)
		}
	})
	hold := make(chan struct{})
	s.Programs = func(a vm.Arch) (map[string][]byte, error) { <-hold; return only("init")(a) }
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := s.Ensure(t.Context(), p, report); err != nil {
				t.Error(err)
			}
		})
	}
	close(hold)
	wg.Wait()
	if built.Load() != 1 {
		t.Errorf("built %d times, %d waited", built.Load(), waited.Load())
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

// TestKilledBuilds kills builders at fifty moments spread over a build. What
// they leave never passes for an image, and the next builder makes the same.
func TestKilledBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds until it is killed, fifty times")
	}
	const kills = 50
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("usr/lib/file%03d", i)] = strings.Repeat(fmt.Sprint(i), 20_000)
	}
	p := newPack(t, vm.AMD64, bytes.Repeat([]byte("kernel"), 500_000),
		archive(t, map[string]string{"lib/modules/6.1.0/modules.builtin": builtin}), archive(t, files))

	whole := t.TempDir()
	began := time.Now()
	if out, err := builder(whole, p.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	length := time.Since(began)
	want := ensure(t, image.Store{Dir: whole, Programs: only("init")}, p)

	store := image.Store{Dir: t.TempDir(), Programs: only("init")}
	for killed := 0; killed < kills; {
		cmd := builder(store.Dir, p.Dir)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(length*time.Duration(killed+1)/(kills+1), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
		code := cmd.ProcessState.ExitCode()
		switch code {
		case -1:
			killed++
		case 0:
			// It was done before its moment: a build takes no longer than this one.
			length = min(length, time.Since(began))
		default:
			t.Fatalf("it failed: %v", cmd.ProcessState)
		}
		// Every other time the next one goes on from what is left.
		if code == -1 && killed%2 == 1 {
			continue
		}
		if got := ensure(t, store, p); got.Digest != want.Digest {
			t.Fatalf("after kill %d the image is %s, want %s", killed, got.Digest, want.Digest)
		}
		if err := os.RemoveAll(store.Dir); err != nil {
			t.Fatal(err)
		}
	}
}

const builderEnv = "OSAURUS_TEST_BUILDER"

// only is an initramfs with a first program and no other.
func only(init string) func(vm.Arch) (map[string][]byte, error) {
	return func(vm.Arch) (map[string][]byte, error) { return map[string][]byte{"init": []byte(init)}, nil }
}

// builder is this program again, building an image in a store.
func builder(store, packDir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), builderEnv+"="+store+"\n"+packDir)
	return cmd
}

func TestMain(m *testing.M) {
	if store, packDir, ok := strings.Cut(os.Getenv(builderEnv), "\n"); ok {
		p, err := pack.Open(packDir)
		if err == nil {
			_, err = image.Store{Dir: store, Programs: only("init")}.Ensure(context.Background(), p, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
