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
		Short: "Show what this computer can do, and what is missing",
		Long:  "Checks whether this computer can run the sandbox, and changes nothing. For everything that is missing or slow it names the\ncommand that helps. The exit code is 6 if no guest can be booted before something is repaired.",
		Example: `  osaurus-sandbox doctor
  osaurus-sandbox doctor --json | jq .`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.FindHome()
			if err != nil {
				return err
			}
			report := doctor.Examine(cmd.Context(), doctor.Host{Home: home, Driver: checkDriver})
			err = reply(cmd, report, nil, printReport)
			if err == nil && !report.Ready {
				err = fault.Newf(fault.Unavailable, "", "", "setup is required").Advise("Mend what is missing above, then run osaurus-sandbox doctor again.")
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
		if f.Mend != "" {
			status = p.bad(string(f.Status))
		}
		table.row(status, f.What, f.Detail)
		if f.Mend != "" {
			table.row(p.bad(""), "", "mend: "+f.Mend)
		}
	}
	return table.Flush()
}
