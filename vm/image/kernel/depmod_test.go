package kernel_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/image/kernel"
)

func TestModuleIndexOfARealKernel(t *testing.T) {
	modules := os.DirFS(lab.DebianKernel(t, "amd64").Modules)
	var index kernel.ModuleIndex
	n := 0
	err := fs.WalkDir(modules, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(name, ".ko") {
			return err
		}
		b, err := fs.ReadFile(modules, name)
		if err != nil {
			return err
		}
		switch n++; n % 50 { // as other distributions pack them
		case 1:
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			w.Write(b)
			w.Close()
			name, b = name+".gz", z.Bytes()
		case 2:
			w, _ := zstd.NewWriter(nil)
			name, b = name+".zst", w.EncodeAll(b, nil)
		}
		return index.Add(name, bytes.NewReader(b))
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := index.Dep()
	if err != nil {
		t.Fatal(err)
	}
	deps := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		file, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
		deps[file] = strings.Fields(needs)
	}
	if len(deps) != n {
		t.Errorf("%d lines for %d modules", len(deps), n)
	}
	base := func(file string) string { b, _, _ := strings.Cut(file[strings.LastIndex(file, "/")+1:], "."); return b }
	find := func(name string) (string, []string) {
		for file := range deps {
			if base(file) == name {
				var needs []string
				for _, need := range deps[file] {
					if _, ok := deps[need]; !ok {
						t.Errorf("%s needs %s, which has no line", file, need)
					}
					needs = append(needs, base(need))
				}
				return file, needs
			}
		}
		t.Fatalf("%s is not in modules.dep", name)
		return "", nil
	}
	if _, needs := find("vmw_vsock_virtio_transport"); !slices.Contains(needs, "vsock") || !slices.Contains(needs, "vmw_vsock_virtio_transport_common") {
		t.Errorf("vmw_vsock_virtio_transport needs %q", needs)
	}
	if _, needs := find("virtiofs"); !slices.Contains(needs, "fuse") {
		t.Errorf("virtiofs needs %q", needs)
	}
	if !strings.Contains(string(index.Softdep()), "softdep ") {
		t.Errorf("no softdep: %q", index.Softdep())
	}
}

func FuzzModuleIndex(f *testing.F) {
	b, err := os.ReadFile(lab.DebianKernel(f, "amd64").Modules + "/kernel/lib/crc-itu-t.ko")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a.ko", b)
	f.Add("a.ko.gz", []byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		var index kernel.ModuleIndex
		if index.Add(name, bytes.NewReader(b)) == nil {
			index.Dep()
			index.Softdep()
		}
	})
}
