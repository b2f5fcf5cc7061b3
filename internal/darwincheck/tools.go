package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// buildDir is where skeletons and tools are kept between runs.
const buildDir = ".build/darwincheck"

// staticcheck is the version of `make lint`.
const staticcheck = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"

// checkTools runs the compiler, go vet and staticcheck on the module for a target.
func checkTools(t target) (found []string, summary string, err error) {
	work, err := skeletonWork(t)
	if err != nil {
		return nil, "", err
	}
	linter, err := installStaticcheck()
	if err != nil {
		return nil, "", err
	}
	t.cgo = false
	// Code for other systems is unused here (U1000): make lint sees to that.
	tools := [][]string{{"go", "build", "./..."}, {"go", "vet", "./..."}, {linter, "-checks=inherit,-U1000", "./..."}}
	for _, tool := range tools {
		cmd := exec.Command(tool[0], tool[1:]...)
		cmd.Env = t.env("GOWORK=" + work)
		if out, err := cmd.CombinedOutput(); err != nil {
			found = append(found, fmt.Sprintf("%s for %s/%s: %v\n%s", strings.Join(tool, " "), t.os, t.arch, err, bytes.TrimSpace(out)))
		}
	}
	return found, fmt.Sprintf("%d tools", len(tools)), nil
}

// skeletonWork makes a go.work with skeletons in place of the cgo modules.
func skeletonWork(t target) (string, error) {
	dir := abs(filepath.Join(buildDir, t.arch))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	text := fmt.Sprintf("go 1.26.3\n\nuse %s\n", abs("."))
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

// installStaticcheck builds staticcheck for this system, whatever the target is.
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
		panic(err) // the working directory was deleted
	}
	return a
}
