package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What reaches no more than the seeds, or than a smaller input, is not kept; what is not found
// again stays.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	found := filepath.Join(t.TempDir(), "FuzzNames")
	text := func(s string) string { return "go test fuzz v1\nstring(\"" + s + "\")\n" }
	for at, text := range map[string]string{
		filepath.Join(dir, "go.mod"): "module m\n",
		filepath.Join(dir, "m.go"): `package m

func known(s string) int {
	switch s {
	case "seed":
		return 1
	case "own":
		return 2
	}
	if len(s) > 3 {
		return 3
	}
	return 4
}
`,
		filepath.Join(dir, "m_test.go"): `package m

import (
	"os"
	"testing"
)

func FuzzNames(f *testing.F) {
	if _, err := os.Stat("testdata/page"); err != nil {
		f.Fatal(err)
	}
	f.Add("seed")
	f.Fuzz(func(t *testing.T, s string) { known(s) })
}
`,
		filepath.Join(dir, "testdata/page"):               "",
		filepath.Join(dir, "testdata/fuzz/FuzzNames/own"): text("own"),
		filepath.Join(found, "again"):                     text("seed"),
		filepath.Join(found, "short"):                     text("ab"),
		filepath.Join(found, "long"):                      text("longer"),
		filepath.Join(found, "longest"):                   text("much longer"),
	} {
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	targets, err := list([]string{"./..."})
	if err != nil || len(targets) != 1 || targets[0] != (target{dir, "m", "FuzzNames"}) {
		t.Fatal(targets, err)
	}
	if kept, of, err := keep(targets[0], found); kept != 2 || of != 4 || err != nil {
		t.Errorf("%d of %d kept, %v", kept, of, err)
	}
	own, err := read(filepath.Join(dir, corpora, "FuzzNames"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, i := range own {
		names[i.name] = true
	}
	if len(own) != 3 || !names["own"] || !names["short"] || !names["long"] {
		t.Errorf("there are %v", names)
	}
}
