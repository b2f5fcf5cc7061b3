package plugins

import (
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/internal/diff"
)

// Diff returns a unified diff of two recipes without their files, followed by one of each file. It
// is empty if the recipes are equal.
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

// bare encodes the recipe without its files and time.
func (r Recipe) bare() (string, error) {
	r.Files, r.ModifiedAt = nil, time.Time{}
	text, err := r.Encode()
	return string(text), err
}
