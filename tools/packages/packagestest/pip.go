package packagestest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Pip is an index of Python packages.
type Pip struct{ Server }

// WheelPath returns the path of a package's wheel in the index.
func (p Package) WheelPath() string { return "/files/" + p.wheel() }

func (p Package) wheel() string { return p.Name + "-" + p.version() + "-py3-none-any.whl" }

// NewPip makes an index. A package's files are its modules.
func NewPip(t testing.TB, packages ...Package) *Pip {
	t.Helper()
	r := &Pip{}
	pages := map[string]string{}
	for _, p := range packages {
		r.Put(p.WheelPath(), wheel(t, p))
		pages[p.Name] += fmt.Sprintf("<a href=%q>%s</a><br>\n", p.WheelPath(), p.wheel())
	}
	for name, links := range pages {
		r.Put("/simple/"+name, []byte("<!DOCTYPE html>\n<html><body>\n"+links+"</body></html>\n"))
	}
	return r
}

// Config returns a pip.conf that uses only this index.
func (r *Pip) Config(t testing.TB, to string) string {
	return "[global]\nindex-url = " + r.Serve(t, to) + "/simple/\ntrusted-host = " + to + "\n"
}

func wheel(t testing.TB, p Package) []byte {
	t.Helper()
	about := p.Name + "-" + p.version() + ".dist-info/"
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", p.Name, p.version())
	if p.Depends != "" {
		metadata += "Requires-Dist: " + p.Depends + "\n"
	}
	files := maps.Clone(p.Files)
	if files == nil {
		files = map[string]string{}
	}
	files[about+"METADATA"] = metadata
	files[about+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	names := slices.Sorted(maps.Keys(files))
	files[about+"RECORD"] = strings.Join(names, ",,\n") + ",,\n" + about + "RECORD,,\n"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range append(names, about+"RECORD") {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
