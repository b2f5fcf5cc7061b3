package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// order is the house from the roof to the ground: a package imports only from
// folders further down. bench and internal (tools and help for tests) stand
// on top of everything, but for what in internal is named here: all may stand on that.
var order = []string{
	"bench", "internal", "cmd", "control", "supervisor", "plugins", "tools",
	"bridge", "secrets", "guest", "vm", "sandbox", "config", "fault",
	"internal/bell", "internal/diff", "internal/plain", "internal/queue",
}

// only narrows what a folder may import further than order does: the longest
// prefix of a package's path counts.
var only = map[string][]string{
	"cmd/osaurus-guest": {"guest", "sandbox", "config", "fault", "internal/plain"}, // it is PID 1: small, and nothing of the host's in it
	"cmd/osaurus-host":  {"bridge", "config", "fault", "internal/plain"},           // agents run it: it only speaks to the bridge
	"secrets":           {"config", "fault", "internal/plain"},
	"guest":             {"sandbox", "config", "fault", "internal/plain"}, // the guest does not know what kind of machine it is in
	"vm":                {"config", "fault"},                              // nor the machine what runs in it
	"sandbox":           {"fault"},
}

// wrapped are packages that only one of the house's own imports, which says why.
var wrapped = map[string]string{"testing/synctest": "internal/bubble"}

// pkg is what `go list -json` says of a package.
type pkg struct {
	Dir, ImportPath, Name, Doc         string
	GoFiles, CgoFiles, IgnoredGoFiles  []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
	Module                             struct{ Path string }
}

// path is the package's folder in the module.
func (p pkg) path() string { return p.rel(p.ImportPath) }

func (p pkg) rel(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, p.Module.Path), "/")
}

// wrongImports lists the imports of p that break the order.
func wrongImports(p pkg) []string {
	var wrong []string
	check := func(imports []string, inTest bool) {
		for _, i := range imports {
			if by, is := wrapped[i]; is && p.path() != by {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: use %s", p.path(), i, by))
			}
			if !strings.HasPrefix(i, p.Module.Path+"/") {
				continue
			}
			if why := refuse(p.path(), p.rel(i), inTest); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", p.path(), p.rel(i), why))
			}
		}
	}
	check(p.Imports, forTests(p.path()))
	check(slices.Concat(p.TestImports, p.XTestImports), true)
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// refuse says why from may not import to, or "".
func refuse(from, to string, inTest bool) string {
	if forTests(to) {
		if !inTest {
			return "it is for tests only"
		}
		if top(to) == "internal" {
			return ""
		}
	}
	if top(from) == top(to) && top(from) != "cmd" {
		return ""
	}
	fromAt, toAt := slices.Index(order, top(from)), slices.Index(order, top(to))
	switch {
	case fromAt < 0 || toAt < 0:
		return "a folder that is not in the order of the house"
	case fromAt >= toAt:
		return "it is not further down"
	}
	if allowed, narrow := narrowed(from); narrow && !slices.Contains(allowed, top(to)) {
		return "it may import only " + strings.Join(allowed, ", ")
	}
	return ""
}

// forTests reports whether a package exists for tests alone: internal, and
// suites and fixtures by their name. The conformance kit of sandboxes is not: the
// command line runs it too.
func forTests(p string) bool {
	if p == "sandbox/sandboxtest" {
		return false
	}
	return top(p) == "internal" || slices.ContainsFunc(strings.Split(p, "/"), func(part string) bool {
		return strings.HasSuffix(part, "test") || strings.HasPrefix(part, "test") || part == "e2e"
	})
}

func narrowed(p string) ([]string, bool) {
	for ; p != "."; p = path.Dir(p) {
		if allowed, ok := only[p]; ok {
			return allowed, true
		}
	}
	return nil, false
}

// top is the folder of order that p is in, or the first of its path.
func top(p string) string {
	first, rest, _ := strings.Cut(p, "/")
	second, _, _ := strings.Cut(rest, "/")
	if both := first + "/" + second; slices.Contains(order, both) {
		return both
	}
	return cmp.Or(first, ".")
}
