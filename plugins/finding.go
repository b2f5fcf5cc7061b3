package plugins

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
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

// refusal returns a finding of severity Fault.
func refusal(path string, rule Rule, fix, format string, args ...any) *Finding {
	return &Finding{Severity: Fault, Rule: rule, Path: path, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// shownFaults is how many faults an error names.
const shownFaults = 5

// Refusal returns an InvalidArgs error that names the first faults, or nil if there are none.
func Refusal(findings []Finding) error {
	var lines []string
	fix, faults := "", 0
	for _, f := range findings {
		if f.Severity != Fault {
			continue
		}
		if faults++; faults == 1 {
			fix = f.Fix
		}
		if faults <= shownFaults {
			lines = append(lines, f.String())
		}
	}
	if faults == 0 {
		return nil
	}
	if faults > shownFaults {
		lines = append(lines, fmt.Sprintf("and %d more", faults-shownFaults))
	}
	return fault.New(fault.InvalidArgs, "read recipe", "", errors.New(strings.Join(lines, "; "))).Advise(fix)
}

// root is the JSON path of the recipe itself.
const root = "$"

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// below returns the JSON path of a member: "$.tools", `$.files["a b.txt"]`.
func below(path, key string) string {
	if plainKey.MatchString(key) {
		return path + "." + key
	}
	return path + "[" + strconv.Quote(brief(key)) + "]"
}

// item returns the JSON path of an item of a list: "$.tools[0]".
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
