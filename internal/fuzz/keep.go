package main

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// mostBytes is the largest input that is kept: a repository is no place for what only is long.
const mostBytes = 16 << 10

// keep takes of a folder of inputs into the target's own those that reach blocks of its package
// that neither its seeds do nor one that is kept already. Small ones go first.
func keep(t target, found string) (kept, of int, err error) {
	inputs, err := read(found)
	if err != nil || len(inputs) == 0 {
		return 0, 0, err
	}
	own := filepath.Join(t.dir, corpora, t.name)
	seeds, err := read(own)
	if err != nil {
		return 0, 0, err
	}
	b, err := newBench(t)
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	reached, err := b.reach("seed#")
	if err != nil {
		return 0, 0, err
	}
	for _, seed := range seeds {
		blocks, err := b.reachWith(seed)
		if err != nil {
			return 0, 0, err
		}
		maps.Copy(reached, blocks)
	}
	if err := os.MkdirAll(own, 0o755); err != nil {
		return 0, 0, err
	}
	for _, i := range inputs {
		if len(i.text) > mostBytes {
			continue
		}
		blocks, err := b.reachWith(i)
		if err != nil { // of a target that took other values, or what fails: go test says so itself
			continue
		}
		before := len(reached)
		if maps.Copy(reached, blocks); len(reached) == before {
			continue
		}
		if err := os.WriteFile(filepath.Join(own, i.name), i.text, 0o644); err != nil {
			return kept, len(inputs), err
		}
		kept++
	}
	_ = os.Remove(own) // stays if anything is in it
	return kept, len(inputs), nil
}

// input is one file of a corpus.
type input struct {
	name string
	text []byte
}

// read reads a corpus that need not be there, small inputs first.
func read(dir string) ([]input, error) {
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []input
	for _, n := range names {
		text, err := os.ReadFile(filepath.Join(dir, n.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, input{n.Name(), text})
	}
	slices.SortStableFunc(all, func(a, b input) int { return cmp.Compare(len(a.text), len(b.text)) })
	return all, nil
}
