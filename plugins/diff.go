package plugins

import (
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/internal/diff"
)

// Diff is what has changed from one recipe to another, as `diff -u` would have it: the recipe without its files, and
// then each file. It is empty if nothing has.
func Diff(before, after Recipe) (string, error) {
	a, err := before.bare()
	if err != nil {
		return "", err
	}
	b, err := after.bare()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(diff.Unified("recipe", a, b))
	paths := slices.Concat(sortedKeys(before.Files), sortedKeys(after.Files))
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		out.WriteString(diff.Unified("files/"+string(p), before.Files[p], after.Files[p]))
	}
	return out.String(), nil
}

// bare is the recipe's text without what is shown elsewhere, or says nothing.
func (r Recipe) bare() (string, error) {
	r.Files, r.ModifiedAt = nil, time.Time{}
	text, err := r.Encode()
	return string(text), err
}
