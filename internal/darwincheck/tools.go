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

// checkTools runs the compiler, go vet and staticcheck for a target, on the packages that,
// with their tests, are not the same for one that such tools have seen. For the Macs
// that are made today all is compiled.
func checkTools(t, seen target) (found []string, summary string, err error) {
	patterns, err := differing(t, seen)
	if err != nil || len(patterns) == 0 {
		return nil, "nothing is for it alone", err
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
	build := []string{"go", "build", "./..."}
	if t.arch != mainArch {
		build = append(build[:2], patterns...)
	}
	for _, tool := range [][]string{
		build,
		append([]string{"go", "vet"}, patterns...),
		append([]string{linter, "-checks=inherit,-U1000"}, patterns...),
	} {
		cmd := exec.Command(tool[0], tool[1:]...)
		cmd.Env = t.env("GOWORK=" + work)
		if out, err := cmd.CombinedOutput(); err != nil {
			found = append(found, fmt.Sprintf("%s %s for %s/%s: %v\n%s", filepath.Base(tool[0]), tool[1], t.os, t.arch, err, bytes.TrimSpace(out)))
		}
	}
	return found, fmt.Sprintf("%s; vet and staticcheck of %d packages that are not as for %s/%s", strings.Join(build, " "), len(patterns), seen.os, seen.arch), nil
}

// mainArch is the architecture of Macs that are made today.
const mainArch = "arm64"

// differing lists the packages that have, with their tests, other files for a target than
// for one that was seen.
func differing(t, seen target) ([]string, error) {
	files := func(t target) (map[string][]string, error) {
		pkgs, err := list(t, true, nil, "./...")
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
	there, err := files(seen)
	if err != nil {
		return nil, err
	}
	var found []string
	for path, f := range here {
		if !slices.Equal(f, there[path]) {
			path, _, variant := strings.Cut(path, " [") // a package as its tests have it
			if variant {
				path = strings.TrimSuffix(path, "_test")
			}
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
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

// installStaticcheck builds it for this system, whatever the target is, as make lint has it.
func installStaticcheck() (string, error) {
	bin := abs(filepath.Join(buildDir, "bin"))
	cmd := exec.Command("go", "install", "-trimpath", staticcheck)
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOWORK=off", "CGO_ENABLED=0")
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
