package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// followed is the file whose sections "…, followed" say by which functions something goes.
const followed = "ARCHITECTURE.md"

var (
	declared   = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const )(\w+)`)
	identifier = regexp.MustCompile(`^(?:[A-Za-z0-9]+\.)*([A-Za-z0-9]*[a-z][A-Za-z0-9]*)$`)
)

// wrongNames: each Go file that is named there is there, and in those sections each function
// or type, and each folder.
func wrongNames(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, followed))
	if err != nil {
		return nil, err
	}
	there, err := namesBelow(root)
	if err != nil {
		return nil, err
	}
	var wrong []string
	within := false
	for i, line := range strings.Split(string(text), "\n") {
		if title, is := strings.CutPrefix(line, "## "); is {
			within = strings.HasSuffix(title, ", followed")
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			name := m[1]
			top, _, _ := strings.Cut(name, "/")
			switch function := identifier.FindStringSubmatch(name); {
			case strings.HasSuffix(name, ".go"):
			case !within:
				continue
			case function != nil:
				name = function[1]
			case !there[top]: // no folder of the module's
				continue
			}
			if !there[name] {
				wrong = append(wrong, fmt.Sprintf("%s:%d: there is no %s", followed, i+1, m[1]))
			}
		}
	}
	return wrong, nil
}

// namesBelow are the folders and Go files, these also without their folder, and what the
// files declare.
func namesBelow(root string) (map[string]bool, error) {
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && at != root {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, at)
		if err != nil || !d.IsDir() && filepath.Ext(at) != ".go" {
			return err
		}
		names[filepath.ToSlash(rel)] = true
		if d.IsDir() {
			return nil
		}
		names[d.Name()] = true
		text, err := os.ReadFile(at)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	return names, err
}
