package kernel_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/image/kernel"
)

type files map[string][]byte

// tree returns a walk over a module tree.
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

// module returns an ELF file with a .modinfo section.
func module(info ...string) []byte {
	const headerSize, sectionSize = 64, 64
	text, names := strings.Join(info, "\x00")+"\x00", "\x00.modinfo\x00.shstrtab\x00"
	sections := []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: headerSize, Size: uint64(len(text))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: headerSize + uint64(len(text)), Size: uint64(len(names))},
	}
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Shoff: headerSize + uint64(len(text)+len(names)), Ehsize: headerSize, Shentsize: sectionSize, Shnum: 3, Shstrndx: 2,
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, header)
	b.WriteString(text + names)
	binary.Write(&b, binary.LittleEndian, sections)
	return b.Bytes()
}

func TestOrder(t *testing.T) {
	some := files{
		"modules.builtin": []byte("kernel/x/built-in.ko\nkernel/x/other.ko\n"),
		"kernel/README":   []byte("not a module"),
	}
	for name, info := range map[string][]string{
		"a": {"depends=b,d,c"}, "b": {"license=GPL", "depends=d"}, "c": {"softdep=pre: f", "depends="}, "d": {"depends="},
		"f": nil, "with-lost": {"depends=lost"}, "round": {"depends=about"}, "about": {"depends=round"},
	} {
		some["kernel/"+name+".ko"] = module(info...)
	}
	for _, c := range []struct {
		name  string
		names []string
		want  string
		kind  fault.Kind
		about string // in the error
	}{
		{"dependencies first", []string{"a"}, "d b c a", "", ""},
		{"each once", []string{"d", "a", "b"}, "d b c a", "", ""},
		{"built in", []string{"built_in", "other"}, "", "", ""},
		{"nothing", nil, "", "", ""},
		{"missing", []string{"absent"}, "", fault.NotFound, "absent"},
		{"needs a missing one", []string{"with_lost"}, "", fault.NotFound, "with_lost needs it"},
		{"circle", []string{"round"}, "", fault.Rejected, "depends on itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			order, err := order(t, some, c.names...)
			if names(order) != c.want {
				t.Errorf("order is %q, want %q", names(order), c.want)
			}
			if c.kind == "" && err != nil || c.kind != "" && (fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.about)) {
				t.Errorf("error is %v, want %q about %q", err, c.kind, c.about)
			}
		})
	}
}

// order reads modules and returns them in their order.
func order(t testing.TB, f files, names ...string) ([]kernel.Module, error) {
	t.Helper()
	got, err := kernel.ReadModules(t.Context(), tree(t, f), names...)
	if err != nil {
		return nil, err
	}
	return got.Order(names...)
}

func TestRealKernel(t *testing.T) {
	dir := lab.DebianKernel(t, "amd64").Modules
	walk := func(visit func(*tar.Header, io.Reader) error) error {
		return fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			defer f.Close()
			return visit(&tar.Header{Typeflag: tar.TypeReg, Name: name}, f)
		})
	}
	got, err := kernel.ReadModules(t.Context(), walk, "virtiofs")
	if err != nil {
		t.Fatal(err)
	}
	order, err := got.Order("virtiofs")
	if all := names(order); err != nil || !strings.HasPrefix(all, "fuse ") || !strings.HasSuffix(all, " virtiofs") {
		t.Errorf("order is %q, %v", all, err)
	}
}

func TestPackings(t *testing.T) {
	plain := module("license=GPL", "description="+strings.Repeat("compresses well ", 20))
	for packing, program := range map[string][]string{"": {"cat"}, ".gz": {"gzip"}, ".xz": {"xz", "--check=crc32", "--lzma2=dict=1MiB"}, ".zst": {"zstd"}} {
		t.Run("ko"+packing, func(t *testing.T) {
			data := packed(t, plain, program[0], program[1:]...)
			order, err := order(t, files{"kernel/virtio-x.ko" + packing: data}, "virtio-x")
			if err != nil || len(order) != 1 || !bytes.Equal(order[0].Data, plain) {
				t.Errorf("got %v, %v", names(order), err)
			}
			_, err = kernel.ReadModules(t.Context(), tree(t, files{"kernel/virtio-x.ko" + packing: data[:len(data)/2]}), "virtio_x")
			if err == nil || !strings.Contains(err.Error(), "virtio-x.ko"+packing) {
				t.Errorf("half a module: %v", err)
			}
		})
	}
}

func TestSignatureIsCutOff(t *testing.T) {
	const mark = "~Module signature appended~\n"
	plain := string(module())
	for name, c := range map[string]struct{ file, want string }{
		"signed":      {plain + "SIG" + "\x00\x00\x02\x00\x00\x00\x00\x00" + "\x00\x00\x00\x03" + mark, plain},
		"too long":    {plain + "\x00\x00\x02\x00\x00\x00\x00\x00" + "\xff\xff\xff\xff" + mark, ""},
		"in the text": {plain + mark + "more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			order, err := order(t, files{"a.ko": []byte(c.file)}, "a")
			if want := cmp.Or(c.want, c.file); err != nil || string(order[0].Data) != want {
				t.Errorf("%v, %v, want %d bytes", order, err, len(want))
			}
		})
	}
}

func TestBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 65<<20))
	z.Close()
	if _, err := order(t, files{"kernel/big.ko.gz": b.Bytes()}, "big"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("65 MB out of %d kB: %v", b.Len()>>10, err)
	}
}

func TestReadStops(t *testing.T) {
	broken := errors.New("broken")
	if _, err := kernel.ReadModules(t.Context(), func(func(*tar.Header, io.Reader) error) error { return broken }, "a"); !errors.Is(err, broken) {
		t.Errorf("with no archive: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kernel.ReadModules(ctx, tree(t, files{"a.ko": nil}), "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func FuzzReadModules(f *testing.F) {
	f.Add("a.ko", module("depends=b", "softdep=pre: c"))
	f.Add("a.ko", module("depends=a,,", "softdep=post: pre: a"))
	f.Add("a.ko", append(module(), "~Module signature appended~\n"...))
	f.Add("a.ko.gz", []byte("\x1f\x8b\x08"))
	f.Add("a.ko.xz", []byte("\xfd7zXZ\x00"))
	f.Add("a.ko.zst", []byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if name == "" || strings.ContainsAny(name, "\x00/") || len(name) > 200 {
			return
		}
		_, _ = order(t, files{name: data}, "a")
	})
}
