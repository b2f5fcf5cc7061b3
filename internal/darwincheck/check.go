package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// checkTypes type-checks packages and their tests for a target.
//
// go/types accepts every C.name. In imported packages it checks only declarations.
// Errors there in a cgo module concern its C types, so they are counted and not
// reported.
func checkTypes(t target, patterns ...string) (found []string, summary string, err error) {
	pkgs, err := list(t, true, nil, patterns...)
	if err != nil {
		return nil, "", err
	}
	u := newUniverse(t, pkgs)
	u.check()
	named, tolerated := 0, 0
	for _, n := range u.nodes {
		if !n.DepOnly {
			named++
		} else if n.tolerated() {
			tolerated += len(n.errs)
		}
	}
	return u.found(), fmt.Sprintf("%d packages of ours and %d others, %d errors in others' cgo declarations tolerated", named, len(u.nodes)-named, tolerated), nil
}

// universe is a set of packages that are type-checked together.
type universe struct {
	target  target
	overlay map[string][]byte // absolute path to the text that replaces a file
	fset    *token.FileSet
	nodes   map[string]*node
}

// node is a package of a universe. It is checked after its imports.
type node struct {
	*listed
	checked chan struct{}
	pkg     *types.Package
	errs    []error
}

// tolerated reports whether errors in the package do not count.
func (n *node) tolerated() bool { return n.DepOnly && len(n.CgoFiles) > 0 }

func newUniverse(t target, pkgs []*listed) *universe {
	u := &universe{target: t, fset: token.NewFileSet(), nodes: map[string]*node{}}
	for _, p := range pkgs {
		u.nodes[p.ImportPath] = &node{listed: p, checked: make(chan struct{})}
	}
	return u
}

// found returns the errors, each once: a package and its test variant share files.
func (u *universe) found() []string {
	var found []string
	for _, n := range u.nodes {
		if n.tolerated() {
			continue
		}
		for _, err := range n.errs {
			found = append(found, err.Error())
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// declare checks the declarations of all packages.
func (u *universe) declare() {
	for _, n := range u.nodes {
		n.DepOnly = true
	}
	u.check()
}

// check checks all packages in the order of imports, one per processor at once.
func (u *universe) check() {
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for _, n := range u.nodes {
		all.Go(func() {
			defer close(n.checked)
			for _, i := range n.Imports {
				if d := u.nodes[i]; d != nil && d != n {
					<-d.checked
				}
			}
			processors <- struct{}{}
			defer func() { <-processors }()
			u.checkOne(n)
		})
	}
	all.Wait()
}

func (u *universe) checkOne(n *node) {
	if n.ImportPath == "unsafe" {
		n.pkg = types.Unsafe
		return
	}
	report := func(err error) { n.errs = append(n.errs, err) }
	var files []*ast.File
	for _, name := range n.files() {
		if !filepath.IsAbs(name) {
			name = filepath.Join(n.Dir, name)
		}
		var src any
		if b, ok := u.overlay[name]; ok {
			src = b
		}
		f, err := parser.ParseFile(u.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			report(err)
		}
		if f != nil {
			files = append(files, f)
		}
	}
	config := types.Config{
		FakeImportC:      true,
		IgnoreFuncBodies: n.DepOnly,
		Sizes:            types.SizesFor("gc", u.target.arch),
		Error:            report,
		Importer:         importer(func(path string) (*types.Package, error) { return u.imported(n, path) }),
	}
	if n.Module != nil && n.Module.GoVersion != "" {
		config.GoVersion = "go" + n.Module.GoVersion
	}
	path, _, _ := strings.Cut(n.ImportPath, " ") // "p [p.test]" is p with its tests
	n.pkg, _ = config.Check(path, u.fset, files, nil)
}

func (u *universe) imported(from *node, path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if mapped, ok := from.ImportMap[path]; ok {
		path = mapped
	}
	n := u.nodes[path]
	if n == nil || n.pkg == nil {
		return nil, fmt.Errorf("there is no package %q for %s/%s", path, u.target.os, u.target.arch)
	}
	return n.pkg, nil
}

type importer func(string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
