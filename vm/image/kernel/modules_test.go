package kernel_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/kernel"
)

type files map[string][]byte

// tree is a module tree as Read takes it.
func tree(t testing.TB, f files) kernel.WalkFunc {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := w.WriteHeader(&tar.Header{Name: "lib/modules/6.1.0/" + name, Mode: 0o644, Size: int64(len(f[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return func(visit func(*tar.Header, io.Reader) error) error { return walk(bytes.NewReader(b.Bytes()), visit) }
}

func walk(r io.Reader, visit func(*tar.Header, io.Reader) error) error {
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(h, a); err != nil {
			return err
		}
	}
}

func names(order []kernel.Module) string {
	var s []string
	for _, m := range order {
		s = append(s, m.Name)
	}
	return strings.Join(s, " ")
}

func TestOrder(t *testing.T) {
	some := files{
		"modules.dep": []byte(`kernel/a.ko: kernel/b.ko kernel/d.ko kernel/c.ko
kernel/b.ko: kernel/d.ko
kernel/c.ko:
kernel/d.ko:
kernel/e.ko:
kernel/f.ko:
kernel/with-lost.ko: kernel/lost.ko
kernel/round.ko: kernel/about.ko
kernel/about.ko: kernel/round.ko
`),
		"modules.softdep": []byte("# Soft dependencies\nsoftdep c pre: e crc32c post: f\nsoftdep e pre: c\n"),
		"modules.builtin": []byte("kernel/x/built-in.ko\nkernel/x/other.ko\n"),
		"kernel/README":   []byte("not a module"),
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "with-lost", "round", "about"} {
		some["kernel/"+name+".ko"] = []byte("module " + name)
	}
	for _, c := range []struct {
		name  string
		names []string
		want  string
		kind  fault.Kind
		about string // in the error
	}{
		{"dependencies first", []string{"a"}, "d b e c a", "", ""},
		{"each once", []string{"d", "a", "b"}, "d b e c a", "", ""},
		{"built in", []string{"built_in", "other"}, "", "", ""},
		{"nothing", nil, "", "", ""},
		{"missing", []string{"absent"}, "", fault.NotFound, "absent"},
		{"needs a missing one", []string{"with_lost"}, "", fault.NotFound, "with_lost needs it"},
		{"circle", []string{"round"}, "", fault.Rejected, "depends on itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := kernel.ReadModules(t.Context(), tree(t, some), c.names...)
			if err != nil {
				t.Fatal(err)
			}
			order, err := got.Order(c.names...)
			if names(order) != c.want {
				t.Errorf("order is %q, want %q", names(order), c.want)
			}
			if c.kind == "" && err != nil || c.kind != "" && (fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.about)) {
				t.Errorf("error is %v, want %q about %q", err, c.kind, c.about)
			}
		})
	}
}

var update = flag.Bool("update", false, "write testdata/module.ko, to be packed with xz --check=crc32 --lzma2=dict=1MiB")

func TestPackings(t *testing.T) {
	plain := []byte(strings.Repeat("a module that compresses well ", 20))
	if *update {
		if err := os.WriteFile("testdata/module.ko", plain, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	packedXZ, err := os.ReadFile("testdata/module.ko.xz") // by the xz program
	if err != nil {
		t.Fatal(err)
	}
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write(plain)
	z.Close()
	s, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.Write(plain)
	s.Close()
	for packing, data := range map[string][]byte{"": plain, ".gz": gz.Bytes(), ".xz": packedXZ, ".zst": zst.Bytes()} {
		t.Run("ko"+packing, func(t *testing.T) {
			got, err := kernel.ReadModules(t.Context(), tree(t, files{"modules.dep": nil, "kernel/virtio-x.ko" + packing: data}), "virtio_x")
			if err != nil {
				t.Fatal(err)
			}
			order, err := got.Order("virtio-x")
			if err != nil || len(order) != 1 || !bytes.Equal(order[0].Data, plain) {
				t.Errorf("got %v, %v", names(order), err)
			}
			if packing == "" {
				return // half of a plain file is a file
			}
			cut := data[:len(data)/2]
			if _, err := kernel.ReadModules(t.Context(), tree(t, files{"modules.dep": nil, "kernel/virtio-x.ko" + packing: cut}), "virtio_x"); err == nil ||
				!strings.Contains(err.Error(), "virtio-x.ko"+packing) {
				t.Errorf("half a module: %v", err)
			}
		})
	}
}

func TestSignatureIsCutOff(t *testing.T) {
	const mark = "~Module signature appended~\n"
	const plain = "module"
	for name, c := range map[string]struct{ file, want string }{
		"signed":      {plain + "SIG" + "\x00\x00\x02\x00\x00\x00\x00\x00" + "\x00\x00\x00\x03" + mark, plain},
		"too long":    {plain + "\x00\x00\x02\x00\x00\x00\x00\x00" + "\xff\xff\xff\xff" + mark, ""},
		"in the text": {plain + mark + "more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kernel.ReadModules(t.Context(), tree(t, files{"modules.dep": nil, "a.ko": []byte(c.file)}), "a")
			if err != nil {
				t.Fatal(err)
			}
			order, err := got.Order("a")
			if want := cmp.Or(c.want, c.file); err != nil || string(order[0].Data) != want {
				t.Errorf("%d bytes are left of %d, want %d (%v)", len(order[0].Data), len(c.file), len(want), err)
			}
		})
	}
}

func TestBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.CopyN(z, zeros{}, 65<<20)
	z.Close()
	_, err := kernel.ReadModules(t.Context(), tree(t, files{"modules.dep": nil, "kernel/big.ko.gz": b.Bytes()}), "big")
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("65 MB out of %d kB: %v", b.Len()>>10, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReadStops(t *testing.T) {
	broken := errors.New("broken")
	if _, err := kernel.ReadModules(t.Context(), func(func(*tar.Header, io.Reader) error) error { return broken }, "a"); !errors.Is(err, broken) {
		t.Errorf("with no archive: %v", err)
	}
	if _, err := kernel.ReadModules(t.Context(), tree(t, files{"a.ko": nil}), "a"); fault.KindOf(err) != fault.NotFound || fault.AdviceOf(err) == "" {
		t.Errorf("without lists: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kernel.ReadModules(ctx, tree(t, files{"modules.dep": nil}), "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func FuzzReadModules(f *testing.F) {
	f.Add("a.ko", []byte("module~Module signature appended~\n"), "kernel/a.ko: kernel/b.ko", "softdep a pre: c")
	f.Add("a.ko.gz", []byte("\x1f\x8b\x08"), "kernel/a.ko:a.ko", "softdep a pre: a")
	f.Add("a.ko.xz", []byte("\xfd7zXZ\x00"), "", "")
	f.Add("a.ko.zst", []byte("\x28\xb5\x2f\xfd"), ":", "softdep")
	f.Fuzz(func(t *testing.T, name string, data []byte, dep, softdep string) {
		if name == "" || strings.ContainsAny(name, "\x00/") || len(name) > 200 {
			return
		}
		got, err := kernel.ReadModules(t.Context(), tree(t, files{name: data, "modules.dep": []byte(dep), "modules.softdep": []byte(softdep)}), "a")
		if err == nil {
			_, _ = got.Order("a")
		}
	})
}
