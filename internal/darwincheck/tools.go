package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// buildDir is where skeletons and tools are kept between runs.
const buildDir = ".build/darwincheck"

// staticcheck is the version that `make lint` runs too.
const staticcheck = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"

// checkTools runs the compiler, go vet and staticcheck for a target. For any
// but the first architecture only the packages are looked at that are not the
// same for both.
func checkTools(t target) (found []string, summary string, err error) {
	patterns := []string{"./..."}
	if t.arch != mainArch {
		if patterns, err = differing(t); err != nil || len(patterns) == 0 {
			return nil, "nothing is for it alone", err
		}
	}
	work, err := skeletonWork(t)
	if err != nil {
		return nil, "", err
	}
	linter, err := installStaticcheck()
	if err != nil {
		return nil, "", err
	}
	t.cgo = false
	// What is there for another system is unused here: make lint sees to that.
	for _, tool := range [][]string{{"go", "build"}, {"go", "vet"}, {linter, "-checks=inherit,-U1000"}} {
		cmd := exec.Command(tool[0], append(tool[1:], patterns...)...)
		cmd.Env = t.env("GOWORK=" + work)
		if out, err := cmd.CombinedOutput(); err != nil {
			found = append(found, fmt.Sprintf("%s for %s/%s: %v\n%s", strings.TrimPrefix(strings.Join(tool, " "), filepath.Dir(linter)+"/"), t.os, t.arch, err, bytes.TrimSpace(out)))
		}
	}
	return found, "build, vet, staticcheck of " + strings.Join(patterns, " "), nil
}

// mainArch is the architecture of Macs that are made today.
const mainArch = "arm64"

// differing lists the packages whose files are not those of mainArch.
func differing(t target) ([]string, error) {
	files := func(t target) (map[string][]string, error) {
		pkgs, err := list(t, false, nil, "./...")
		m := map[string][]string{}
		for _, p := range pkgs {
			if !p.DepOnly {
				m[p.ImportPath] = p.files()
			}
		}
		return m, err
	}
	here, err := files(t)
	if err != nil {
		return nil, err
	}
	there, err := files(target{t.os, mainArch, t.cgo})
	if err != nil {
		return nil, err
	}
	var found []string
	for path, f := range here {
		if !slices.Equal(f, there[path]) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found, nil
}

// skeletonWork makes a go.work with skeletons in place of the cgo modules.
func skeletonWork(t target) (string, error) {
	dir := abs(filepath.Join(buildDir, t.arch))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	text := fmt.Sprintf("go 1.26.0\n\nuse %s\n", abs("."))
	for _, module := range cgoModules {
		to := filepath.Join(dir, path.Dir(module)+"-"+path.Base(module))
		if err := writeSkeleton(t, module, to); err != nil {
			return "", err
		}
		text += fmt.Sprintf("replace %s => %s\n", module, to)
	}
	work := filepath.Join(dir, "go.work")
	return work, os.WriteFile(work, []byte(text), 0o644)
}

// installStaticcheck builds it for this system, whatever the target is.
func installStaticcheck() (string, error) {
	bin := abs(filepath.Join(buildDir, "bin"))
	cmd := exec.Command("go", "install", staticcheck)
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install staticcheck: %w\n%s", err, out)
	}
	return filepath.Join(bin, "staticcheck"), nil
}

func abs(path string) string {
	a, err := filepath.Abs(path)
	if err != nil {
		panic(err) // there is no working directory
	}
	return a
}
