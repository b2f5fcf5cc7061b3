package enginetest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Outcome is how a scenario went.
type Outcome string

const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Lacking Outcome = "lacking" // the suite says that the backend cannot do it, and that is so
)

// Result is how one scenario went. Its fields are what --json prints.
type Result struct {
	Scenario string        `json:"scenario"`
	Kairo    bool          `json:"kairo"` // one of the eight that are not up for discussion
	Promise  string        `json:"promise"`
	Outcome  Outcome       `json:"outcome"`
	Detail   string        `json:"detail,omitempty"` // what was seen instead, or why it is lacking
	Took     time.Duration `json:"took_nanos"`
}

// Report is how all of them went.
type Report struct {
	Backend string   `json:"backend"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Lacking int      `json:"lacking"`
	Results []Result `json:"results"`
}

// Check runs every scenario, one after the other, outside of go test. each, which
// may be nil, is told each result at once. The error is of a suite that cannot be
// run; whether the backend keeps its promises is in the report.
func Check(ctx context.Context, suite Suite, each func(Result)) (Report, error) {
	if err := suite.check(); err != nil {
		return Report{}, err
	}
	report := Report{Backend: suite.Name}
	for _, scenario := range Scenarios() {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		result := scenario.run(ctx, suite)
		switch result.Outcome {
		case Passed:
			report.Passed++
		case Failed:
			report.Failed++
		case Lacking:
			report.Lacking++
		}
		report.Results = append(report.Results, result)
		if each != nil {
			each(result)
		}
	}
	return report, nil
}

// OK says whether nothing failed. A backend that is OK may still lack something.
func (r Report) OK() bool { return r.Failed == 0 }

// Print writes a line for a person, with what was promised and seen below it if
// that is not the same.
func (r Result) Print(w io.Writer) error {
	mark := map[Outcome]string{Passed: "ok     ", Failed: "FAILED ", Lacking: "LACKING"}[r.Outcome]
	text := fmt.Sprintf("%s  %s (%.1f s)\n", mark, r.Scenario, r.Took.Seconds())
	if r.Outcome != Passed {
		label := map[Outcome]string{Failed: "seen", Lacking: "because"}[r.Outcome]
		text += fmt.Sprintf("         promised: %s\n         %s: %s\n", r.Promise, label, strings.ReplaceAll(r.Detail, "\n", "\n         "))
	}
	_, err := io.WriteString(w, text)
	return err
}

// PrintTotal writes the last line for a person.
func (r Report) PrintTotal(w io.Writer) error {
	verdict := "keeps the contract"
	switch {
	case r.Failed > 0:
		verdict = "does NOT keep the contract"
	case r.Lacking > 0:
		verdict = "keeps the contract but for what it LACKS"
	}
	_, err := fmt.Fprintf(w, "%s %s: %d passed, %d failed, %d lacking\n", r.Backend, verdict, r.Passed, r.Failed, r.Lacking)
	return err
}
