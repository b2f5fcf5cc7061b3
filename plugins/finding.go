package plugins

import (
	"errors"
	"fmt"
	"strings"

	"osaurus-sandbox/internal/fault"
)

// Severity is how much a finding matters.
type Severity string

const (
	Fault   Severity = "error"   // the recipe is refused
	Warning Severity = "warning" // it is accepted, but does not do what its author meant
)

// Rule identifies the kind of a finding for programs: "unquoted-param".
type Rule string

// Finding is a mistake in a recipe.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	// Path is the place in the JSON: "$.tools[0].run".
	Path string `json:"path"`
	// Line and Column count from 1. They are 0 if the recipe was not read from text.
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Text   string `json:"text"`
	Fix    string `json:"fix"`
}

// String formats the finding on one line: "12:7 $.tools[0].run: …".
func (f Finding) String() string {
	place := f.Path
	if f.Line > 0 {
		place = fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Path)
	}
	return place + ": " + f.Text
}

// Error implements error.
func (f *Finding) Error() string { return f.String() }

// Faults returns the findings that make a recipe invalid.
func Faults(findings []Finding) []Finding {
	var faults []Finding
	for _, f := range findings {
		if f.Severity == Fault {
			faults = append(faults, f)
		}
	}
	return faults
}

// shownFaults is how many faults an error names.
const shownFaults = 5

// Refusal returns an InvalidArgs error that names the first faults, or nil if there are none.
func Refusal(findings []Finding) error {
	faults := Faults(findings)
	if len(faults) == 0 {
		return nil
	}
	lines := make([]string, 0, shownFaults+1)
	for _, f := range faults[:min(len(faults), shownFaults)] {
		lines = append(lines, f.String())
	}
	if more := len(faults) - shownFaults; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return fault.New(fault.InvalidArgs, "read recipe", "", errors.New(strings.Join(lines, "; "))).Advise(faults[0].Fix)
}
