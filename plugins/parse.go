package plugins

import (
	"cmp"
	"errors"
	"maps"
	"slices"
)

// Parse reads a recipe. Its error is that of Refusal: fault.InvalidArgs with the path, the place and
// a remedy. It ignores warnings; Lint reports them.
func Parse(text []byte) (Recipe, error) {
	r, findings := read(text)
	if err := Refusal(findings); err != nil {
		return Recipe{}, err
	}
	return r, nil
}

// Lint lists what is wrong with a recipe's text: faults first, then warnings, by their place, and
// at most maxFindings.
func Lint(text []byte) []Finding {
	_, findings := read(text)
	return findings[:min(len(findings), maxFindings)]
}

// read decodes a text as far as it can and lists what is wrong with it.
func read(text []byte) (Recipe, []Finding) {
	doc, value, err := scan(text)
	if finding, ok := errors.AsType[*Finding](err); ok {
		return Recipe{}, []Finding{*finding}
	}
	r, findings := decode(value)
	unread := map[string]bool{}
	for _, f := range findings {
		unread[f.Path] = true
	}
	within := func(path string) bool {
		for path != "" && !unread[path] {
			path = parent(path)
		}
		return path != ""
	}
	for _, f := range Validate(r) {
		if !within(f.Path) { // a value of the wrong type is not reported as missing, too
			findings = append(findings, f)
		}
	}
	for i, f := range findings {
		findings[i] = doc.locate(f)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r, findings
}

// sortedKeys returns a map's keys, sorted.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
