package pack_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/pack"
)

func TestParseManifestNamesWhatIsWrong(t *testing.T) {
	p := build(t, pack.Store{Dir: t.TempDir()}, "a")
	b, err := os.ReadFile(filepath.Join(p.Dir, pack.ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	if _, err := pack.ParseManifest(b); err != nil {
		t.Fatal(err)
	}
	zero := strings.Repeat("0", 64)
	for _, c := range []struct{ old, new, want string }{
		{`"format": 1`, `"format": 2`, "format"},
		{`"name": "a"`, `"name": "../a"`, "name"},
		{`"arch": "amd64"`, `"arch": "riscv64"`, "arch"},
		{`"packageTool": "apt"`, `"packageTool": "rpm"`, "packageTool"},
		{`"version": "12"`, `"version": "\u001b[2J"`, "version"},
		{`"name": "kernel"`, `"name": "/etc/passwd"`, "kernel.name"},
		{`"name": "kernel"`, `"name": "manifest.json"`, "kernel.name"},
		{`"name": "kernel"`, `"name": "root.tar"`, "root.name"},
		{`"size": 4096`, `"size": -1`, "kernel.size"},
		{`"size": 4096`, `"size": 9999999999999`, "kernel.size"},
		{p.Manifest.Kernel.SHA256.String(), zero, "kernel.sha256"},
		{p.Manifest.Kernel.SHA256.String(), strings.ToUpper(p.Manifest.Kernel.SHA256.String()), "digest"},
		{p.Manifest.Kernel.SHA256.String(), "abc", "digest"},
		{good, good + "{}", "after"},
		{good, good[:40], "unexpected end"},
		{good, `"text"`, "string"},
		{good, strings.Repeat(" ", 300<<10) + good, "longer"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%q is not in the manifest", c.old)
		}
		_, err := pack.ParseManifest([]byte(text))
		if fault.KindOf(err) != fault.InvalidArgs || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: %v, want invalid_args naming %q", c.new, err, c.want)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	p := build(f, pack.Store{Dir: f.TempDir()}, "a")
	b, _ := os.ReadFile(filepath.Join(p.Dir, pack.ManifestName))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := pack.ParseManifest(b)
		if err != nil {
			return
		}
		for _, file := range m.Files() {
			if !filepath.IsLocal(file.Name) || filepath.Base(file.Name) != file.Name || file.Size <= 0 || file.Size > pack.MaxFile {
				t.Fatalf("the file %+v was let through", file)
			}
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := pack.ParseManifest(text)
		if err != nil || again.Digest() != m.Digest() {
			t.Fatalf("what was read is not read again: %v", err)
		}
	})
}
