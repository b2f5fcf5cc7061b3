package main

import (
	"io"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/doctor"
)

func newDoctor() *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "doctor",
		Short: "Check whether this computer can run the sandbox",
		Long: `Checks this computer and changes nothing. For everything that is missing or slow it prints the command that fixes it.
The exit code is 6 if no guest can boot.`,
		Example: `  osaurus-sandbox doctor
  osaurus-sandbox doctor --json | jq .`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.FindHome()
			if err != nil {
				return err
			}
			report := doctor.Examine(cmd.Context(), home, checkDriver)
			err = reply(cmd, report, nil, printReport)
			if err == nil && !report.Ready {
				err = fault.Newf(fault.Unavailable, "", "", "setup is required").Advise("Fix what is missing above, then run osaurus-sandbox doctor again.")
			}
			return err
		},
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
