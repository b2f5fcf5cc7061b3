// Command darwincheck type-checks the macOS code of the module on any system, tests included, for both architectures and against the real cgo modules.
// It also compares the module that stands in for vz on Linux with the real one.
//
// It compiles nothing and needs no Mac, SDK or C compiler. Compiling, vet and staticcheck are left to
// the macOS jobs of the repository's workflow. Run it in the module's root.
package main

import (
	"fmt"
	"os"
	"time"
)

const (
	standInModule = "github.com/Code-Hex/vz/v3"
	standInWork   = "vm/vz/standin/go.work"
)

// mostShown limits what a step prints: later mistakes mostly follow from the first.
const mostShown = 40

// step is a named check.
type step struct {
	name string
	do   func() (found []string, summary string, err error)
}

func main() {
	arm64, amd64 := target{"darwin", "arm64", true}, target{"darwin", "amd64", true}
	steps := []step{
		{"types darwin/arm64", func() ([]string, string, error) { return checkTypes(arm64, "./...") }},
		{"types darwin/amd64", func() ([]string, string, error) { return checkTypes(amd64, "./...") }},
		{"stand-in", func() ([]string, string, error) { return checkStandIn(arm64) }},
	}
	ok := true
	for _, step := range steps {
		began := time.Now()
		found, summary, err := step.do()
		if err != nil {
			found = append(found, err.Error())
		}
		for _, f := range found[:min(len(found), mostShown)] {
			fmt.Println(f)
		}
		ok = ok && len(found) == 0
		fmt.Printf("== %s: %d found; %s; %.1f s\n", step.name, len(found), summary, time.Since(began).Seconds())
	}
	if !ok {
		os.Exit(1)
	}
}
