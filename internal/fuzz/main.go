// Command fuzz runs every fuzz target, and keeps of the inputs it found those that reach what its seeds do not.
//
// They are kept in testdata/fuzz, where go test takes them for seeds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	each := flag.Duration("time", 30*time.Second, "how long each target runs; 0 keeps what earlier runs found")
	flag.Parse()
	if err := run(*each, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// shrink is how long go test may take to make one input smaller. Its own minute would leave no
// time for others: a target that is slow has few.
const shrink = time.Second

// run goes on with the next target when one fails.
func run(each time.Duration, packages []string) error {
	targets, err := list(packages)
	if err != nil {
		return err
	}
	cache, err := output("go", "env", "GOCACHE")
	if err != nil {
		return err
	}
	var failed []error
	for _, t := range targets {
		if each > 0 {
			fmt.Println("==", t)
			cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(), "-fuzzminimizetime", shrink.String(), t.pkg)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				failed = append(failed, fmt.Errorf("%v: %w", t, err))
			}
		}
		kept, of, err := keep(t, filepath.Join(strings.TrimSpace(cache), "fuzz", t.pkg, t.name))
		if err != nil {
			failed = append(failed, fmt.Errorf("%v: %w", t, err))
		} else if kept > 0 {
			fmt.Printf("%v: %d of %d inputs kept\n", t, kept, of)
		}
	}
	return errors.Join(failed...)
}

// target is one fuzz test.
type target struct{ dir, pkg, name string }

func (t target) String() string { return t.pkg + " " + t.name }

// list finds the targets of packages.
func list(packages []string) ([]target, error) {
	out, err := output("go", append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}"}, packages...)...)
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(out) {
		pkg, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[pkg] = dir
	}
	if out, err = output("go", append([]string{"test", "-list", "^Fuzz"}, packages...)...); err != nil {
		return nil, err
	}
	var targets []target
	var names []string // of the package whose own line follows
	for line := range strings.Lines(out) {
		switch words := strings.Fields(line); {
		case len(words) == 1:
			names = append(names, words[0])
		case len(words) > 1 && words[0] == "ok":
			for _, name := range names {
				targets = append(targets, target{dirs[words[1]], words[1], name})
			}
			names = nil
		}
	}
	return targets, nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
