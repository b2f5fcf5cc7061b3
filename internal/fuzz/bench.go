package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// corpora is where go test looks for a package's inputs.
const corpora = "testdata/fuzz"

// bench is a folder of the module in which a target finds all that its package has, and of inputs
// only the one that is tried.
type bench struct {
	dir, program, target string
}

func newBench(t target) (b *bench, err error) {
	mod, err := output("go", "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	built := filepath.Join(filepath.Dir(mod), ".build")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(built, "fuzz")
	if err != nil {
		return nil, err
	}
	b = &bench{dir: dir, program: filepath.Join(dir, "program"), target: t.name}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := errors.Join(link(t.dir, dir, "testdata"), link(filepath.Join(t.dir, "testdata"), filepath.Join(dir, "testdata"), "fuzz")); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, corpora, t.name), 0o755); err != nil {
		return nil, err
	}
	_, err = output("go", "test", "-c", "-cover", "-vet=off", "-o", b.program, t.pkg)
	return b, err
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) } // it is in the folder for such

// link has the entries of a folder, if it is there, be in another too, but for one.
func link(from, to, without string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == without {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// reachWith tells which blocks of its package the target reaches with an input.
func (b *bench) reachWith(i input) (map[string]bool, error) {
	at := filepath.Join(b.dir, corpora, b.target, i.name)
	if err := os.WriteFile(at, i.text, 0o600); err != nil {
		return nil, err
	}
	blocks, err := b.reach(i.name)
	return blocks, errors.Join(err, os.Remove(at))
}

// reach tells which blocks of its package the target reaches with inputs whose names begin so.
func (b *bench) reach(names string) (map[string]bool, error) {
	profile := filepath.Join(b.dir, "profile")
	cmd := exec.Command(b.program, "-test.run", "^"+b.target+"$/^"+names, "-test.coverprofile", profile)
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", names, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	blocks := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if block, reached := strings.CutSuffix(strings.TrimSpace(line), " 1"); reached {
			blocks[block] = true
		}
	}
	return blocks, nil
}
