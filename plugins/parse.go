package plugins

import (
	"cmp"
	"maps"
	"slices"

	"osaurus-sandbox/internal/printable"
)

// Parse reads a recipe. Its error is that of Refusal: fault.InvalidArgs with the path, the place and
// a remedy. Warnings are none of its business: Lint has them.
func Parse(text []byte) (Recipe, error) {
	r, findings := read(text)
	if err := Refusal(findings); err != nil {
		return Recipe{}, err
	}
	return r, nil
}

// Lint lists what is wrong with a recipe's text: faults first, then warnings, by their place, and
// no more than anybody reads.
func Lint(text []byte) []Finding {
	_, findings := read(text)
	return findings[:min(len(findings), maxFindings)]
}

// read decodes a text as far as it can and lists what is wrong with it.
func read(text []byte) (Recipe, []Finding) {
	t, stumbled := grow(text)
	if stumbled != nil {
		line, column := printable.Place(text, stumbled.at)
		return Recipe{}, []Finding{{Severity: Fault, Rule: stumbled.rule, Path: stumbled.path, Line: line, Column: column, Text: stumbled.Error(), Fix: stumbled.fix}}
	}
	r, findings := decode(t.top)
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
		if !within(f.Path) { // what could not be read is not missing besides
			findings = append(findings, f)
		}
	}
	for i, f := range findings {
		findings[i] = t.locate(f)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r, findings
}

// sortedKeys are a map's keys in their order.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
