package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages lists the documents.
func pages(t *testing.T) []string {
	return slices.DeleteFunc(tracked(t), func(path string) bool {
		dir := filepath.Dir(path)
		return filepath.Ext(path) != ".md" || dir != "." && dir != "docs"
	})
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)

// TestPromisesHaveTests: every test that a document names exists.
func TestPromisesHaveTests(t *testing.T) {
	tests := map[string]bool{}
	for _, path := range tracked(t) {
		if strings.HasSuffix(path, ".go") {
			for _, m := range testFunc.FindAllStringSubmatch(read(t, path), -1) {
				tests[m[1]] = true
			}
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)(?:/[^`]*)?`")
	for _, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

// TestPathsExist: every Go file and package that a document names exists.
func TestPathsExist(t *testing.T) {
	path := regexp.MustCompile("`((?:" + strings.Join(order, "|") + "|scripts|docs)/[\\w./-]*\\w)`")
	for _, page := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "RATIONALE.md", "SECURITY.md"} {
		for _, m := range path.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
	}
}

// anchors returns the link targets of a page's headings.
func anchors(text string) (list []string) {
	punctuation := regexp.MustCompile(`[^\w\- ]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		list = append(list, strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return list
}

// TestEventsAreListed: docs/operators.md lists the events and audit actions that programs can rely on.
func TestEventsAreListed(t *testing.T) {
	name := regexp.MustCompile(`"((?:agent|artifact|backup|config|copy|daemon|exec|history|job|machine|memory|mount|network|plugin|prompt|review|sandbox|secret|session|snapshot|task|tool)\.[a-z_-]+)"`)
	guide := read(t, "docs/operators.md")
	for _, path := range tracked(t) {
		top, _, _ := strings.Cut(path, "/")
		if !slices.Contains([]string{"bridge", "control", "plugins", "supervisor"}, top) || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(read(t, path), -1) {
			if !slices.Contains([]string{".json", ".toml", ".yaml"}, filepath.Ext(m[1])) && !strings.Contains(guide, "`"+m[1]+"`") {
				t.Errorf("%s: %s is not listed in docs/operators.md", path, m[1])
			}
		}
	}
}
