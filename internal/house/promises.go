package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// promises is the file that says what is promised, and which test proves it.
const promises = "SECURITY.md"

// promiseHead is how each table of promises begins.
const promiseHead = "| promise | limit | proven by |"

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// wrongPromises: each row of a table of promises names a test, and each test that is named is
// there: in one of the packages that are named on the same line, where there are any.
func wrongPromises(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, promises))
	if err != nil {
		return nil, err
	}
	tests, err := testsBelow(root)
	if err != nil {
		return nil, err
	}
	var wrong []string
	promised := false // in a table of promises
	for i, line := range strings.Split(string(text), "\n") {
		complain := func(why string) { wrong = append(wrong, fmt.Sprintf("%s:%d: %s", promises, i+1, why)) }
		var packages, named []string
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if _, is := tests[m[1]]; is {
				packages = append(packages, m[1])
			} else if testName.MatchString(m[1]) {
				named = append(named, m[1])
			}
		}
		switch {
		case strings.HasPrefix(line, promiseHead):
			promised = true
		case !strings.HasPrefix(line, "|"):
			promised = false
		case !promised || strings.HasPrefix(line, "| ---"):
		case strings.Count(line, "|") != strings.Count(promiseHead, "|"):
			complain("a promise whose cells are not those of the table's head")
		case len(named) == 0:
			complain("a promise without a test")
		}
		if len(packages) == 0 {
			packages = []string{anywhere}
		}
		for _, name := range named {
			if !slices.ContainsFunc(packages, func(p string) bool { return slices.Contains(tests[p], name) }) {
				complain("there is no " + name + " in " + strings.Join(packages, ", "))
			}
		}
	}
	return wrong, nil
}

// anywhere stands for all folders.
const anywhere = "the whole module"

// testsBelow are the tests of each folder with Go files, whatever system they are
// for, and those of all.
func testsBelow(root string) (map[string][]string, error) {
	tests := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		found := tests[folder]
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			found = append(found, string(m[1]))
		}
		tests[folder], tests[anywhere] = found, append(tests[anywhere], found...)
		return nil
	})
	return tests, err
}
