package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/doctor"
)

func newDoctor() *cobra.Command {
	return command("doctor", func(ctx context.Context, c *call) error {
		home, err := config.FindHome()
		if err != nil {
			return err
		}
		report := doctor.Examine(ctx, home, checkDriver)
		err = reply(c, report, nil, printReport)
		if err == nil && !report.Ready {
			err = fault.Newf(fault.Unavailable, "", "", "setup is required").Advise("Fix what is missing above, then run osaurus-sandbox doctor again.")
		}
		return err
	})
}

func printReport(w io.Writer, r doctor.Report) error {
	p := paintFor(w)
	table := newTable(w)
	for _, f := range r.Findings {
		status := p.good(string(f.Status))
		if f.Fix != "" {
			status = p.bad(string(f.Status))
		}
		table.row(status, f.What, f.Detail)
		if f.Fix != "" {
			table.row(p.bad(""), "", "fix: "+f.Fix)
		}
	}
	return table.Flush()
}

func newDiagnose() *cobra.Command {
	var target string
	return daemonCommand("diagnose", func(ctx context.Context, c *call) error {
		failed, print := 0, printCheck
		if c.json {
			print = printJSONLine
		}
		for r, err := range control.Messages(c.Diagnose(ctx, &controlpb.DiagnoseRequest{Target: target})) {
			if err != nil {
				return err
			}
			if !r.Passed {
				failed++
			}
			if err := print(c.out, r); err != nil {
				return err
			}
		}
		if failed > 0 {
			return fault.New(fault.Execution, "", "", errors.New(plural(failed, "check")+" failed"))
		}
		return nil
	},
		withFlag(&target, "target", "the URL that the guest fetches to test its network (default its package server)"))
}

func printCheck(w io.Writer, r *controlpb.DiagnoseResponse) error {
	verdict := paintFor(w).good("ok    ")
	if !r.Passed {
		verdict = paintFor(w).bad("FAILED")
	}
	err := writef(w, "%s  %-18s %6.2f s  %s: %s\n", verdict, r.Name, r.Took.AsDuration().Round(10*time.Millisecond).Seconds(), r.Did, r.Found)
	if err == nil && r.Advice != "" {
		err = writef(w, "%8s%s\n", "", r.Advice)
	}
	return err
}

// plural formats a count with a noun.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
