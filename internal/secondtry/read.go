package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// test is a function that go test calls; its subtests are part of it.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + " " + t.name }

// outcome is what a run of go test has shown.
type outcome struct {
	ok             bool
	failed, passed []test
	// broken are packages that failed otherwise than by tests which say so.
	broken []string
}

// loud marks a line that is shown although its test has not failed: what it did without.
const loud = "*** "

// event is a line of go test -json: see go doc test2json.
type event struct{ Action, Package, Test, Output string }

// program is a package's test program while it runs.
type program struct {
	output   strings.Builder             // its own
	ofTests  map[string]*strings.Builder // of those that have not passed, and their subtests
	loud     strings.Builder             // what tests that have passed or were skipped want known
	failed   []test
	finished bool // it tried what it has, and judged it
	raced    bool
}

// read reads go test -json, and writes what go test writes without it.
func read(events io.Reader, w io.Writer) (outcome, error) {
	var seen outcome
	programs := map[string]*program{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return seen, nil
		}
		if err != nil {
			return seen, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			e = event{Action: "build-output", Output: string(line)} // not all of the go tool speaks JSON
		}
		if e.Package == "" {
			if _, err := io.WriteString(w, e.Output); err != nil {
				return seen, err
			}
			continue
		}
		p := programs[e.Package]
		if p == nil {
			p = &program{ofTests: map[string]*strings.Builder{}}
			programs[e.Package] = p
		}
		if e.Test != "" {
			p.ofTest(e, &seen)
		} else if text := p.ofPackage(e, &seen); text != "" {
			if _, err := io.WriteString(w, text); err != nil {
				return seen, err
			}
		}
	}
}

// ofTest takes in what a test or subtest does.
func (p *program) ofTest(e event, seen *outcome) {
	sub := strings.Contains(e.Test, "/")
	switch e.Action {
	case "output":
		p.raced = p.raced || strings.Contains(e.Output, "WARNING: DATA RACE")
		if strings.HasPrefix(e.Output, "=== ") {
			return // that it runs, waits, goes on
		}
		if p.ofTests[e.Test] == nil {
			p.ofTests[e.Test] = &strings.Builder{}
		}
		p.ofTests[e.Test].WriteString(e.Output)
	case "fail":
		if !sub {
			p.failed = append(p.failed, test{e.Package, e.Test})
		}
	case "pass", "skip":
		if said := p.ofTests[e.Test]; said != nil {
			for line := range strings.Lines(said.String()) {
				if strings.Contains(line, loud) {
					p.loud.WriteString(line)
				}
			}
		}
		delete(p.ofTests, e.Test)
		if e.Action == "pass" && !sub {
			seen.passed = append(seen.passed, test{e.Package, e.Test})
		}
	}
}

// ofPackage takes in what a test program does, and returns what there is to
// show when it has ended.
func (p *program) ofPackage(e event, seen *outcome) string {
	switch e.Action {
	case "output":
		p.raced = p.raced || strings.Contains(e.Output, "WARNING: DATA RACE")
		p.finished = p.finished || e.Output == "FAIL\n"
		p.output.WriteString(e.Output)
	case "pass", "skip":
		// The last line is the go tool's verdict.
		text := strings.TrimSuffix(p.output.String(), "\n")
		return text[strings.LastIndexByte(text, '\n')+1:] + "\n" + p.loud.String()
	case "fail":
		seen.failed = append(seen.failed, p.failed...)
		if len(p.failed) == 0 || !p.finished || p.raced {
			seen.broken = append(seen.broken, e.Package)
		}
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(p.ofTests)) {
			fmt.Fprint(&text, p.ofTests[name])
		}
		return text.String() + p.loud.String() + p.output.String()
	}
	return ""
}
