package modules_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/image/modules"
)

// module makes the smallest ELF file with a .modinfo section.
func module(info ...string) []byte {
	const header, sectionHeader = 64, 64
	modinfo := strings.Join(info, "\x00") + "\x00"
	names := "\x00.modinfo\x00.shstrtab\x00"
	le := binary.LittleEndian
	b := make([]byte, header)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 1)  // relocatable
	le.PutUint16(b[18:], 62) // x86-64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[40:], uint64(header+len(modinfo)+len(names)))
	le.PutUint16(b[52:], header)
	le.PutUint16(b[58:], sectionHeader)
	le.PutUint16(b[60:], 3) // sections
	le.PutUint16(b[62:], 2) // the one with the names
	b = append(append(b, modinfo...), names...)
	section := func(name, kind uint32, offset, size int) {
		s := make([]byte, sectionHeader)
		le.PutUint32(s[0:], name)
		le.PutUint32(s[4:], kind)
		le.PutUint64(s[24:], uint64(offset))
		le.PutUint64(s[32:], uint64(size))
		b = append(b, s...)
	}
	section(0, 0, 0, 0)
	section(1, 1, header, len(modinfo))
	section(10, 3, header+len(modinfo), len(names))
	return b
}

type files map[string][]byte

// tree is a module tree as Read takes it.
func tree(t testing.TB, f files) modules.Walk {
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

func names(order []modules.Module) string {
	var s []string
	for _, m := range order {
		s = append(s, m.Name)
	}
	return strings.Join(s, " ")
}

func TestOrder(t *testing.T) {
	some := files{
		"kernel/a.ko":       module("depends=b,c"),
		"kernel/b.ko":       module("depends=d"),
		"kernel/c.ko":       module("depends=", "softdep=pre: e crc32c post: f"),
		"kernel/d.ko":       module("depends=built-in"),
		"kernel/e.ko":       module("softdep=pre: c"),
		"kernel/f.ko":       module(),
		"kernel/with-a.ko":  module("depends=lost"),
		"kernel/round.ko":   module("depends=about"),
		"kernel/about.ko":   module("depends=round"),
		"modules.builtin":   []byte("kernel/x/built-in.ko\nkernel/x/other.ko\n"),
		"kernel/README.txt": []byte("not a module"),
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
		{"needs a missing one", []string{"with_a"}, "", fault.NotFound, "with_a needs it"},
		{"circle", []string{"round"}, "", fault.Rejected, "needs itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := modules.Read(t.Context(), tree(t, some), c.names...)
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
	plain := module("depends=", "description="+strings.Repeat("a module that compresses well ", 20))
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
			got, err := modules.Read(t.Context(), tree(t, files{"kernel/virtio-x.ko" + packing: data}), "virtio_x")
			if err != nil {
				t.Fatal(err)
			}
			order, err := got.Order("virtio-x")
			if err != nil || len(order) != 1 || !bytes.Equal(order[0].Data, plain) {
				t.Errorf("got %v, %v", names(order), err)
			}
			cut := data[:len(data)/2]
			if _, err := modules.Read(t.Context(), tree(t, files{"kernel/virtio-x.ko" + packing: cut}), "virtio_x"); err == nil ||
				!strings.Contains(err.Error(), "virtio-x.ko"+packing) {
				t.Errorf("half a module: %v", err)
			}
		})
	}
}

func TestSignatureIsCutOff(t *testing.T) {
	const mark = "~Module signature appended~\n"
	plain := string(module("depends="))
	for name, c := range map[string]struct{ file, want string }{
		"signed":      {plain + "SIG" + "\x00\x00\x02\x00\x00\x00\x00\x00" + "\x00\x00\x00\x03" + mark, plain},
		"too long":    {plain + "\x00\x00\x02\x00\x00\x00\x00\x00" + "\xff\xff\xff\xff" + mark, ""},
		"in the text": {plain + mark + "more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := modules.Read(t.Context(), tree(t, files{"a.ko": []byte(c.file)}), "a")
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
	_, err := modules.Read(t.Context(), tree(t, files{"kernel/big.ko.gz": b.Bytes()}), "big")
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("65 MB out of %d kB: %v", b.Len()>>10, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReadStops(t *testing.T) {
	broken := errors.New("broken")
	if _, err := modules.Read(t.Context(), func(func(*tar.Header, io.Reader) error) error { return broken }, "a"); !errors.Is(err, broken) {
		t.Errorf("with no archive: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := modules.Read(ctx, tree(t, files{"a.ko": module()}), "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// On the real thing: every order must hold for every pair that depmod's rule names.
func TestDebianKernel(t *testing.T) {
	k := lab.DebianKernel(t, "amd64")
	source := func(visit func(*tar.Header, io.Reader) error) error {
		r, w := io.Pipe()
		defer r.Close()
		go func() {
			tw := tar.NewWriter(w)
			w.CloseWithError(errors.Join(tw.AddFS(os.DirFS(k.Modules)), tw.Close()))
		}()
		return walk(r, visit)
	}
	want := []string{"vmw_vsock_virtio_transport", "virtiofs", "ext4", "virtio_net", "overlay"}
	got, err := modules.Read(t.Context(), source, want...)
	if err != nil {
		t.Fatal(err)
	}
	order, err := got.Order(want...)
	if err != nil {
		t.Fatal(err)
	}
	const kernel61 = "virtio virtio_ring vmw_vsock_virtio_transport_common vsock"
	at := func(name string) int {
		return slices.IndexFunc(order, func(m modules.Module) bool { return m.Name == name })
	}
	for before := range strings.FieldsSeq(kernel61) {
		if i, j := at(before), at("vmw_vsock_virtio_transport"); i < 0 || i > j {
			t.Errorf("%s is number %d, the vsock transport that needs it is %d: %s", before, i, j, names(order))
		}
	}
	if i, j := at("fuse"), at("virtiofs"); i < 0 || i > j {
		t.Errorf("fuse is number %d, virtiofs %d", i, j)
	}
	if at("ext4") >= 0 || !got.Has("ext4") {
		t.Error("ext4 is built into this kernel, but Order or Has says otherwise")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a.ko", module("depends=b", "softdep=pre: c"))
	f.Add("a.ko", []byte("\x7fELF"))
	f.Add("a.ko.gz", []byte("\x1f\x8b\x08"))
	f.Add("a.ko.xz", []byte("\xfd7zXZ\x00"))
	f.Add("a.ko.zst", []byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if name == "" || strings.ContainsAny(name, "\x00/") || len(name) > 200 {
			return
		}
		got, err := modules.Read(t.Context(), tree(t, files{name: data}), "a")
		if err == nil && got.Has("a") {
			_, _ = got.Order("a")
		}
	})
}
