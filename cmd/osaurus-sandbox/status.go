package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newStatus(c console) *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the sandbox is",
		Long:  "Answers at once, whatever state the guest is in. It starts nothing: the exit code is 6 if no daemon is running.",
		Example: `  osaurus-sandbox status
  osaurus-sandbox status --watch
  osaurus-sandbox status --json | jq --raw-output .state`,
		Args: cobra.NoArgs,
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
				if err != nil {
					return err
				}
				return printStatus(c.out, status, asJSON)
			}
			print := printStatusLine
			if asJSON {
				print = printLine[*controlpb.Status]
			}
			for r, err := range control.Messages(client.WatchStatus(ctx, &controlpb.WatchStatusRequest{})) {
				if err == nil {
					err = print(c.out, r.Status)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again whenever it changes")
	return cmd
}

// inJSON is a message as JSON. What is zero, false or empty is there too: a program that
// looks for it need not know what it would be. Messages that are not set, such as times, are not.
func inJSON(m proto.Message) (json.RawMessage, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
}

// printProto prints a message as JSON for people and programs.
func printProto(w io.Writer, m proto.Message) error {
	text, err := inJSON(m)
	if err != nil {
		return err
	}
	return printJSON(w, text) // its spaces are arbitrary
}

// printLine prints a message as one line of JSON.
func printLine[M proto.Message](w io.Writer, m M) error {
	text, err := inJSON(m)
	if err != nil {
		return err
	}
	return printJSONLine(w, text)
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
	_, err := writef(w, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
	return err
}

func printStatus(w io.Writer, s *controlpb.Status, asJSON bool) error {
	if asJSON {
		return printProto(w, s)
	}
	table := newTable(w)
	row := func(name string, text any) {
		if text := safef("%s", text); text != "" {
			writef(table, "%s\t%s\n", name, text)
		}
	}
	row("state", safef("%s for %s (%s)", paintFor(w).state(s.State), ago(s.Since.AsTime()), s.Cause))
	row("reason", s.GetReason().GetText())
	row("advice", s.GetReason().GetAdvice())
	if r := s.Retries; r != nil {
		text := fmt.Sprintf("%d failed", r.Failures)
		if r.NotBefore != nil {
			text += ", not again before " + r.NotBefore.AsTime().Local().Format(time.TimeOnly)
		}
		if r.ByHandOnly {
			text += ", not again by itself: osaurus-sandbox up"
		}
		row("starts", text)
	}
	if m := s.Machine; m != nil {
		row("machine", fmt.Sprintf("%d processors, %.1f GB, %s, %s", m.Cpus, gigabytes(m.Memory), m.Arch, cmp.Or(s.Accelerator, "no accelerator")))
		row("pack", strings.Join(append([]string{m.Pack}, nonEmpty(m.PackReason)...), ": "))
		row("lacking", strings.Join(m.MissingPackages, ", "))
	}
	if g := s.Guest; g != nil {
		row("guest", fmt.Sprintf("%s, Linux %s, up %s", cmp.Or(g.Distribution, "unnamed"), g.Kernel, ago(s.Started.AsTime())))
		row("memory", fmt.Sprintf("%.1f of %.1f GB free", gigabytes(g.MemoryAvailable), gigabytes(g.MemoryTotal)))
		row("network", strings.Join(append([]string{g.Network}, nonEmpty(g.Address, g.NetworkTrouble)...), ", "))
		row("warnings", strings.Join(g.Warnings, "; "))
	}
	if s.Commands > 0 {
		row("running", fmt.Sprintf("%d commands", s.Commands))
	}
	if s.IdleStop != nil {
		row("stops", "at "+s.IdleStop.AsTime().Local().Format(time.TimeOnly)+" unless used")
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
