package kernel_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/kernel"
)

func gzipped(t testing.TB, b []byte) []byte { return packed(t, b, "gzip", "-1") }

func zstandard(t testing.TB, b []byte) []byte { return packed(t, b, "zstd", "-1") }

// packed compresses with a program of the host, as kernels are. Under the race detector,
// that is much faster.
func packed(t testing.TB, b []byte, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s (`make setup` installs it): %v", program, err)
	}
	return out
}

func TestUnpacksRealKernels(t *testing.T) {
	image := read(t, lab.DebianKernel(t, "arm64").Image)
	if got, err := kernel.Unpack(vm.ARM64, lab.Zboot(gzipped(t, image), "gzip")); err != nil || !bytes.Equal(got, image) {
		t.Errorf("arm64 as Alpine packs it: %d bytes, %v", len(got), err)
	}
	bz := read(t, lab.DebianKernel(t, "amd64").Image)
	for form, b := range map[string][]byte{"plain": bz, "gzip": gzipped(t, bz)} {
		if got, err := kernel.Unpack(vm.AMD64, b); err != nil || !bytes.Equal(got, bz) {
			t.Errorf("amd64 %s: %d bytes, %v", form, len(got), err)
		}
	}
}

// start returns the beginning of the arm64 kernel with a header for its length: it is fast
// to pack.
func start(t testing.TB) []byte {
	b := read(t, lab.DebianKernel(t, "arm64").Image)[:1<<20]
	binary.LittleEndian.PutUint64(b[0x10:], uint64(len(b)))
	return b
}

func TestUnpacksEveryForm(t *testing.T) {
	image := start(t)
	small := gzipped(t, image)
	for form, b := range map[string][]byte{
		"plain":               image,
		"gzip":                small,
		"gzip with a tail":    append(bytes.Clone(small), 1, 2, 3),
		"zboot with gzip":     lab.Zboot(small, "gzip"),
		"zboot with zstd":     lab.Zboot(zstandard(t, image), "zstd22"),
		"gzip of a zboot one": gzipped(t, lab.Zboot(small, "gzip")),
	} {
		if got, err := kernel.Unpack(vm.ARM64, b); err != nil || !bytes.Equal(got, image) {
			t.Errorf("%s: %d bytes, %v", form, len(got), err)
		}
	}
}

func TestRefuses(t *testing.T) {
	image := start(t)
	whole := lab.Zboot(gzipped(t, image), "gzip")
	zeros := make([]byte, kernel.MaxSize+1)
	outside := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(outside[8:], 1<<32-1)
	for what, c := range map[string]struct {
		arch vm.Arch
		b    []byte
	}{
		"nothing":                {vm.AMD64, nil},
		"text":                   {vm.ARM64, []byte("hello")},
		"the other architecture": {vm.AMD64, image},
		"an Image that was cut":  {vm.ARM64, image[:len(image)/3]},
		"a zboot that was cut":   {vm.ARM64, whole[:len(whole)/2]},
		"a payload outside":      {vm.ARM64, outside},
		"a payload of lies":      {vm.ARM64, lab.Zboot([]byte("hello"), "gzip")},
		"an unknown algorithm":   {vm.ARM64, lab.Zboot(image, "xzkern")},
		"too many wrappings":     {vm.ARM64, gzipped(t, gzipped(t, gzipped(t, whole)))},
		"a bomb":                 {vm.ARM64, lab.Zboot(zstandard(t, zeros), "zstd")},
	} {
		file := filepath.Join(t.TempDir(), "kernel")
		err := kernel.Write(c.arch, bytes.NewReader(c.b), file)
		if _, missing := os.Stat(file); fault.KindOf(err) != fault.Rejected || missing == nil {
			t.Errorf("%s: %v, want rejected", what, err)
		}
	}
}

func TestCheck(t *testing.T) {
	arm, amd := lab.DebianKernel(t, "arm64").Image, lab.DebianKernel(t, "amd64").Image
	zboot := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(zboot, lab.Zboot(gzipped(t, start(t)), "gzip"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arch vm.Arch
		path string
		want fault.Kind
	}{{vm.ARM64, arm, ""}, {vm.AMD64, amd, ""}, {vm.AMD64, arm, fault.Rejected}, {vm.ARM64, amd, fault.Rejected}, {vm.ARM64, zboot, fault.Rejected}, {vm.ARM64, "/nowhere", fault.NotFound}} {
		if err := kernel.Check(c.arch, c.path); (err != nil || c.want != "") && fault.KindOf(err) != c.want {
			t.Errorf("Check(%s, %s) = %v, want %q", c.arch, c.path, err, c.want)
		}
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

func FuzzPlain(f *testing.F) {
	small := make([]byte, 300)
	binary.LittleEndian.PutUint64(small[0x10:], 300)
	copy(small[0x38:], "ARM\x64")
	f.Add(small)
	f.Add(gzipped(f, small))
	f.Add(lab.Zboot(gzipped(f, small), "gzip"))
	f.Add(lab.Zboot(zstandard(f, small), "zstd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
			plain, err := kernel.Unpack(arch, b)
			if err != nil {
				continue
			}
			if again, err := kernel.Unpack(arch, plain); err != nil || !bytes.Equal(again, plain) {
				t.Fatalf("what was unpacked is not plain: %v", err)
			}
		}
	})
}
