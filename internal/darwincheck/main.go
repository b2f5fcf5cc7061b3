// Command darwincheck checks the macOS half of the module on any system, without a Mac, its SDK or a C compiler for it.
//
// It does three things, each of which finds what the others cannot:
//
//  1. types: everything is type-checked for macOS against the real cgo modules,
//     for both architectures, tests included (check.go);
//  2. stand-in: the module that stands in for vz on Linux is compared with the
//     real one by its types (compare.go). What runs over it is a test of vm/vz;
//  3. tools: the compiler, go vet and staticcheck run for macOS, with the cgo
//     modules replaced by skeletons of them (skeleton.go, tools.go).
//
// The first two compile nothing. The third compiles the whole module and all that
// it imports, and is done only when it is asked for: darwincheck tools.
//
// What is left to a Mac is linking, signing and what Apple's framework does:
// see MACOS.md. Run it in the module's root.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// cgoModules are those that need cgo on macOS. A new one is added here, and
// nowhere else.
var cgoModules = []string{"github.com/Code-Hex/vz/v3", "github.com/keybase/go-keychain"}

const (
	standInModule = "github.com/Code-Hex/vz/v3"
	standInWork   = "vm/vz/standin/go.work"
)

// mostShown is how much a step prints of what it finds: what comes after so
// many mistakes mostly follows from them.
const mostShown = 40

// step is a check, and its name.
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
