package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// recordsGuide is the file that lists what events and the audit can say.
const recordsGuide = "docs/operators.md"

// record is the kind of an event or the action of an entry of the audit, as code has it.
var record = regexp.MustCompile(`"((?:agent|artifact|copy|daemon|exec|job|machine|memory|plugin|prompt|secret|session|task|tool)\.[a-z_-]+)"`)

// unlistedRecords: the kinds and actions that code names as a whole are in the lists that programs are written from.
func unlistedRecords(root string) ([]string, error) {
	guide, err := os.ReadFile(filepath.Join(root, recordsGuide))
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, folder := range []string{"bridge", "control", "plugins", "supervisor"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range record.FindAllSubmatch(text, -1) {
				if name := string(m[1]); name != "plugin.json" && !strings.Contains(string(guide), "`"+name+"`") {
					wrong = append(wrong, fmt.Sprintf("%s: %s is not listed in %s", path, name, recordsGuide))
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return wrong, nil
}
