package kernel_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/kernel"
)

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func zstandard(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

func TestUnpacksRealKernels(t *testing.T) {
	image := read(t, lab.DebianKernel(t, "arm64").Image)
	packed := gzipped(image)
	for form, b := range map[string][]byte{
		"plain":               image,
		"gzip":                packed,
		"gzip with a tail":    append(packed, 1, 2, 3),
		"zboot with gzip":     lab.Zboot(packed, "gzip"),
		"zboot with zstd":     lab.Zboot(zstandard(image), "zstd22"),
		"gzip of a zboot one": gzipped(lab.Zboot(packed, "gzip")),
	} {
		if got, err := kernel.Plain(vm.ARM64, b); err != nil || !bytes.Equal(got, image) {
			t.Errorf("%s: %d bytes, %v", form, len(got), err)
		}
	}
	bz := read(t, lab.DebianKernel(t, "amd64").Image)
	for form, b := range map[string][]byte{"plain": bz, "gzip": gzipped(bz)} {
		if got, err := kernel.Plain(vm.AMD64, b); err != nil || !bytes.Equal(got, bz) {
			t.Errorf("%s: %d bytes, %v", form, len(got), err)
		}
	}
}

func TestRefuses(t *testing.T) {
	image := read(t, lab.DebianKernel(t, "arm64").Image)
	whole := lab.Zboot(gzipped(image), "gzip")
	zeros := make([]byte, kernel.MaxSize+1)
	outside := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(outside[8:], 1<<32-1)
	for what, c := range map[string]struct {
		arch vm.Arch
		b    []byte
	}{
		"nothing":                 {vm.AMD64, nil},
		"text":                    {vm.ARM64, []byte("hello")},
		"the other architecture":  {vm.AMD64, image},
		"an Image that was cut":   {vm.ARM64, image[:len(image)/3]},
		"a zboot that was cut":    {vm.ARM64, whole[:len(whole)/2]},
		"a payload outside":       {vm.ARM64, outside},
		"a payload of lies":       {vm.ARM64, lab.Zboot([]byte("hello"), "gzip")},
		"an unknown algorithm":    {vm.ARM64, lab.Zboot(image, "xzkern")},
		"too many wrappings":      {vm.ARM64, gzipped(gzipped(gzipped(whole)))},
		"a bomb":                  {vm.ARM64, gzipped(zeros)},
		"a bomb packed with zstd": {vm.ARM64, lab.Zboot(zstandard(zeros), "zstd")},
	} {
		if _, err := kernel.Plain(c.arch, c.b); fault.KindOf(err) != fault.Rejected {
			t.Errorf("%s: %v, want rejected", what, err)
		}
	}
}

func TestCheck(t *testing.T) {
	arm, amd := lab.DebianKernel(t, "arm64").Image, lab.DebianKernel(t, "amd64").Image
	zboot := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(zboot, lab.Zboot(gzipped(read(t, arm)), "gzip"), 0o644); err != nil {
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
	f.Add(gzipped(small))
	f.Add(lab.Zboot(gzipped(small), "gzip"))
	f.Add(lab.Zboot(zstandard(small), "zstd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
			plain, err := kernel.Plain(arch, b)
			if err != nil {
				continue
			}
			if again, err := kernel.Plain(arch, plain); err != nil || !bytes.Equal(again, plain) {
				t.Fatalf("what was unpacked is not plain: %v", err)
			}
		}
	})
}
