package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newStatus(c console) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the sandbox is",
		Long:  "Answers at once, whatever state the guest is in. It starts nothing: if no daemon runs, the exit code is 6.",
		Example: `  osaurus-sandbox status
  osaurus-sandbox status --watch
  osaurus-sandbox status --json | jq --raw-output .state`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			client, err := reach(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			noteAnotherBuild(ctx, c, client)
			if !watch {
				status, err := answer(client.Status(ctx, &controlpb.StatusRequest{}))
				return reply(cmd, status, err, printStatus)
			}
			return replyEach(cmd, func(yield func(*controlpb.Status, error) bool) {
				for r, err := range control.Messages(client.WatchStatus(ctx, &controlpb.WatchStatusRequest{})) {
					if !yield(r.GetStatus(), err) {
						return
					}
				}
			}, printStatusLine)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again whenever it changes")
	return withJSON(cmd)
}

// printStatusLine prints what changes most.
func printStatusLine(w io.Writer, s *controlpb.Status) error {
	line := paintFor(w).state(s.State)
	if s.Operation != "" {
		line += safef(", %s", s.Operation)
	}
	for _, step := range s.GetJourney().GetSteps() {
		if step.Status == "in_progress" {
			line += safef(", %s", stepName(step))
		}
	}
	if s.Reason != nil {
		line += safef(": %s", s.Reason.Text)
	}
	return writef(w, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
}

func printStatus(w io.Writer, s *controlpb.Status) error {
	table := newTable(w)
	table.field("state", safef("%s for %s (%s)", paintFor(w).state(s.State), ago(s.Since.AsTime()), s.Cause))
	table.field("reason", s.GetReason().GetText())
	table.field("advice", s.GetReason().GetAdvice())
	if r := s.Retries; r != nil {
		text := fmt.Sprintf("%d failed", r.Failures)
		if r.NotBefore != nil {
			text += ", not again before " + r.NotBefore.AsTime().Local().Format(time.TimeOnly)
		}
		if r.ByHandOnly {
			text += ", not again by itself: osaurus-sandbox up"
		}
		table.field("starts", text)
	}
	if m := s.Machine; m != nil {
		table.field("machine", fmt.Sprintf("%s, %.1f GB, %s, %s", plural(int(m.Cpus), "processor"), gigabytes(m.Memory), m.Arch, cmp.Or(s.Accelerator, "no accelerator")))
		table.field("pack", strings.Join(append([]string{m.Pack}, nonEmpty(m.PackReason)...), ": "))
		table.field("lacking", strings.Join(m.MissingPackages, ", "))
	}
	if g := s.Guest; g != nil {
		table.field("guest", fmt.Sprintf("%s, Linux %s, up %s", cmp.Or(g.Distribution, "unnamed"), g.Kernel, ago(s.Started.AsTime())))
		table.field("memory", fmt.Sprintf("%.1f of %.1f GB free", gigabytes(g.MemoryAvailable), gigabytes(g.MemoryTotal)))
		table.field("network", strings.Join(append([]string{g.Network}, nonEmpty(g.Address, g.NetworkTrouble)...), ", "))
		table.field("warnings", strings.Join(g.Warnings, "; "))
	}
	if s.Commands > 0 {
		table.field("running", plural(int(s.Commands), "command"))
	}
	if s.IdleStop != nil {
		table.field("stops", "at "+s.IdleStop.AsTime().Local().Format(time.TimeOnly)+" unless used")
	}
	return table.Flush()
}

func nonEmpty(list ...string) []string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func ago(t time.Time) string { return max(0, time.Since(t)).Round(time.Second).String() }

func gigabytes(n uint64) float64 { return float64(n) / (1 << 30) }
