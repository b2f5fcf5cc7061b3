// Command house checks that the module is built as the design says: imports point down, packages say what they are, files hold one idea, promises have tests, what documents name is there, and nothing foreign is kept.
//
// It reads `go list` for every system that the module is built for, prints
// what is wrong, and exits with 1 if anything is.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxLines is when a file has outgrown what one reads in one go.
const maxLines = 450

// namesOfNothing are file names that say what kind of thing is in them and not
// which idea.
var namesOfNothing = []string{"types.go", "util.go", "utils.go", "helper.go", "helpers.go", "common.go", "misc.go"}

func main() {
	var wrong []string
	for _, system := range []string{"linux", "darwin"} {
		pkgs, err := list(system)
		if err != nil {
			fmt.Fprintln(os.Stderr, "house:", err)
			os.Exit(1)
		}
		for _, p := range pkgs {
			wrong = append(wrong, wrongImports(p)...)
			wrong = append(wrong, wrongComment(p)...)
			wrong = append(wrong, wrongFiles(p)...)
		}
	}
	for _, look := range []func(root string) ([]string, error){wrongPromises, wrongNames, wrongKeepsakes, unlistedRecords} {
		found, err := look(".")
		if err != nil {
			fmt.Fprintln(os.Stderr, "house:", err)
			os.Exit(1)
		}
		wrong = append(wrong, found...)
	}
	slices.Sort(wrong)
	for _, w := range slices.Compact(wrong) {
		fmt.Println(w)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
}

// list is what the module consists of on a system.
func list(system string) ([]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-json", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// generated is how the go command itself knows a file that a program wrote.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// wrongComment: a package says in its first sentence what it is, unless a
// program wrote it.
func wrongComment(p pkg) []string {
	start := "Package " + p.Name + " "
	if p.Name == "main" {
		start = "Command " + filepath.Base(p.Dir) + " "
	}
	written := slices.DeleteFunc(slices.Concat(p.GoFiles, p.CgoFiles), func(name string) bool {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		return err == nil && generated.Match(text)
	})
	if len(written) == 0 || strings.HasPrefix(p.Doc, start) {
		return nil
	}
	return []string{fmt.Sprintf("%s: its package comment does not begin with %q", p.path(), start)}
}

func wrongFiles(p pkg) []string {
	var wrong []string
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
		where := filepath.Join(p.path(), name)
		if slices.Contains(namesOfNothing, name) {
			wrong = append(wrong, where+": name the file after the idea in it")
		}
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines && !generated.Match(text) {
			wrong = append(wrong, fmt.Sprintf("%s: %d lines; over %d, split it by idea", where, lines, maxLines))
		}
	}
	return wrong
}
