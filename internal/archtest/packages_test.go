package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

const (
	maxFileLines     = 450
	maxFunctionLines = 80
	maxPackages      = 105 // of program, without tests and generated code; raise it for a new capability
)

// order lists the top-level folders. A package imports only from its own folder and from folders further down.
var order = []string{"bench", "cmd", "control", "supervisor", "plugins", "tools", "history", "bridge", "secrets", "guest", "network", "vm", "engine", "config", "internal"}

// mayImport narrows the order for folders that must stay small or independent.
var mayImport = map[string][]string{
	"cmd/osaurus-guest": {"guest", "engine", "config", "internal"}, // PID 1 of the guest
	"cmd/osaurus-host":  {"bridge", "config", "internal"},          // the shim that agents run
	"guest":             {"guest", "engine", "config", "internal"}, // knows nothing of the machine it runs in
	"secrets":           {"secrets", "config", "internal"},
	"vm":                {"vm", "config", "internal"}, // knows nothing of what runs in it
}

type goPackage struct {
	Dir, ImportPath, Name, Doc string
	GoFiles, CgoFiles          []string
	IgnoredGoFiles             []string
	Imports                    []string
	TestImports, XTestImports  []string
	Module                     struct{ Path string }
}

func (p goPackage) path() string { return strings.TrimPrefix(p.ImportPath, p.Module.Path+"/") }

// support reports whether a package exists only for tests and benchmarks.
func support(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first == "bench" || slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool {
		return strings.HasSuffix(part, "test") || strings.HasPrefix(part, "test") ||
			slices.Contains([]string{"e2e", "lab", "standin", "darwincheck", "smalldisk", "freeport", "template", "probe"}, part)
	})
}

// packages lists the module's packages as they are built for a system.
func packages(t *testing.T, system string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestImportOrder(t *testing.T) {
	for _, system := range []string{"linux", "darwin"} {
		for _, p := range packages(t, system) {
			for _, i := range p.Imports {
				to, own := strings.CutPrefix(i, p.Module.Path+"/")
				if !own {
					continue
				}
				if support(to) && !support(p.path()) {
					t.Errorf("%s imports %s, which is for tests", p.path(), to)
				}
				if !support(p.path()) && !allowed(p.path(), to) {
					t.Errorf("%s (%s) imports %s, which is not below it", p.path(), system, to)
				}
			}
		}
	}
}

func allowed(from, to string) bool {
	fromTop, _, _ := strings.Cut(from, "/")
	toTop, _, _ := strings.Cut(to, "/")
	for prefix, list := range mayImport {
		if from == prefix || strings.HasPrefix(from, prefix+"/") {
			return slices.Contains(list, toTop)
		}
	}
	fromAt, toAt := slices.Index(order, fromTop), slices.Index(order, toTop)
	return fromAt >= 0 && toAt >= 0 && (fromTop == toTop || fromAt < toAt)
}

func TestPackageComments(t *testing.T) {
	count := 0
	for _, p := range packages(t, "linux") {
		start := "Package " + p.Name + " "
		if p.Name == "main" {
			start = "Command " + filepath.Base(p.Dir) + " "
		}
		generated := strings.HasSuffix(p.path(), "pb") || strings.HasSuffix(p.path(), "connect")
		if len(p.GoFiles)+len(p.CgoFiles) > 0 && !generated && !strings.HasPrefix(p.Doc, start) {
			t.Errorf("the comment of package %s does not begin with %q", p.path(), start)
		}
		if !generated && !support(p.path()) {
			count++
		}
	}
	if count > maxPackages {
		t.Errorf("%d packages of program, more than %d: merge some", count, maxPackages)
	}
}

func TestSizes(t *testing.T) {
	for _, path := range tracked(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) || strings.HasSuffix(path, "_test.go") || support(filepath.Dir(path)) {
			continue
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it by idea", path, lines, maxFileLines)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if lines := set.Position(d.End()).Line - set.Position(d.Pos()).Line; ok && lines > maxFunctionLines {
				t.Errorf("%s: function %s has %d lines, more than %d", path, f.Name.Name, lines, maxFunctionLines)
			}
		}
	}
}

// Tests that a Mac compiles do not read /proc/self, which only Linux has.
func TestTestsArePortable(t *testing.T) {
	mac := build.Default
	mac.GOOS = "darwin"
	for _, path := range tracked(t) {
		if strings.HasPrefix(path, "internal/archtest/") || !strings.HasSuffix(path, "_test.go") || !strings.Contains(read(t, path), "/proc/self") {
			continue
		}
		if compiled, err := mac.MatchFile(filepath.Join(root, filepath.Dir(path)), filepath.Base(path)); err != nil || compiled {
			t.Errorf("%s reads /proc/self; use /dev/fd, the runtime, or a file for Linux (%v)", path, err)
		}
	}
}

// tracked lists the files that git knows, or skips where there is no repository.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skip("not a git repository")
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), func(path string) bool {
		_, err := os.Lstat(filepath.Join(root, path))
		return err != nil // deleted, and not committed yet
	})
}
