// Command darwincheck checks the macOS half of the module on any system, without a Mac, its SDK or a C compiler for it.
//
// It has three steps:
//
//  1. types: type-checks the module and its tests for macOS on both architectures,
//     against the real cgo modules (check.go).
//  2. stand-in: compares the types of the module that stands in for vz on Linux with
//     those of the real one (compare.go).
//  3. tools: runs the compiler, go vet and staticcheck for macOS, with skeletons in
//     place of the cgo modules (skeleton.go, tools.go). It compiles everything, so it
//     runs only as `darwincheck tools`.
//
// A Mac is still needed for linking, signing and Apple's framework: see MACOS.md.
// Run darwincheck in the module's root.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// cgoModules are the modules that need cgo on macOS.
var cgoModules = []string{"github.com/Code-Hex/vz/v3", "github.com/keybase/go-keychain"}

const (
	standInModule = "github.com/Code-Hex/vz/v3"
	standInWork   = "vm/vz/standin/go.work"
)

// mostShown bounds the errors that a step prints: later ones mostly follow from the
// first.
const mostShown = 40

// step is a check with its name.
type step struct {
	name string
	do   func() (found []string, summary string, err error)
}

func main() {
	arm64, amd64 := target{"darwin", "arm64", true}, target{"darwin", "amd64", true}
	var steps []step
	switch what := strings.Join(os.Args[1:], " "); what {
	case "":
		steps = []step{
			{"types darwin/arm64", func() ([]string, string, error) { return checkTypes(arm64, "./...") }},
			{"types darwin/amd64", func() ([]string, string, error) { return checkTypes(amd64, "./...") }},
			{"stand-in", func() ([]string, string, error) { return checkStandIn(arm64) }},
			{"selectors", func() ([]string, string, error) { return checkSelectors(arm64) }},
		}
	case "tools":
		steps = []step{{"tools darwin/arm64", func() ([]string, string, error) { return checkTools(arm64) }}}
	default:
		fmt.Fprintln(os.Stderr, "usage: darwincheck [tools]")
		os.Exit(2)
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
