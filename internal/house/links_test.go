package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unsaid  = regexp.MustCompile(`[^\w\- ]`) // what an anchor leaves out of a heading
)

// TestLinks follows every link from one page of ours to another, and to a heading
// in it.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("../../*.md")
	more, errMore := filepath.Glob("../../docs/*.md")
	if err != nil || errMore != nil || len(pages) == 0 || len(more) == 0 {
		t.Fatal(pages, more, err, errMore)
	}
	for _, page := range append(pages, more...) {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			path, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", page, found[1])
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s links to %s, and there is no such heading", page, found[1])
			}
		}
	}
}

// anchors are what the headings of a page are called in links.
func anchors(page string) (list []string) {
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		list = append(list, strings.ReplaceAll(unsaid.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-"))
	}
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
