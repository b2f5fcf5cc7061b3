package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newDiagnose(c console) *cobra.Command {
	var target string
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Test whether the sandbox does what agents need",
		Long: `Starts the guest if it does not run, makes all checks at once, and says what to do about each that fails. The exit code is 1 if one
fails. What this guest does not have is not checked.`,
		Example: `  osaurus-sandbox diagnose`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			failed, print := 0, printCheck
			if wantsJSON(cmd) {
				print = printLine
			}
			for r, err := range control.Messages(client.Diagnose(cmd.Context(), &controlpb.DiagnoseRequest{NatTarget: target})) {
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
		}),
	}
	cmd.Flags().StringVar(&target, "nat-target", "", "what the guest fetches to prove its network (default what its package tool asks)")
	return withJSON(cmd)
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

// plural is a number of something that people read.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
