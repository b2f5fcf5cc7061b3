package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// machineCommand is a command that changes the state of the sandbox.
type machineCommand struct {
	use, short, long string
	// confirm, if not empty, is the warning shown before asking for confirmation.
	confirm string
	flags   []string // for a daemon that has to be started
	do      func(context.Context, *control.Client) (*controlpb.Status, error)
}

func newMachineCommands(c console) []*cobra.Command {
	list := []*cobra.Command{newDown(c)}
	for _, m := range []machineCommand{
		{
			use: "up", short: "Start the sandbox, and make what it needs first",
			long: "Starts the daemon and the guest unless they are running. Makes first what is missing: a pack, an image, a disk.",
			do:   asking((*control.Client).Up),
		},
		{
			use: "restart", short: "Stop the guest and start it again",
			long: `Powers the guest off and starts it again. Everything that runs in it ends: commands, jobs, sessions. Files, installed packages
and settings stay. To restart the daemon, use "down --daemon" and then "up".`,
			do: asking((*control.Client).Restart),
		},
		{
			use: "provision", short: "Check and make all that a guest needs, and start it",
			long: "Like up, but checks everything that is there already, and makes again what is broken.",
			do:   provision,
		},
		{
			use: "reset", short: "Start over with an empty disk",
			long:    "Replaces the guest's disk with an empty one: what was installed or changed in the guest is gone. The workspace is kept.",
			confirm: "All that was installed or changed in the guest will be gone. The workspace is kept.",
			flags:   []string{"--" + restFlag},
			do:      asking((*control.Client).Reset),
		},
		{
			use: "remove", short: "Delete the guest: its disk and what it boots from",
			long:    "Deletes the guest's disk, kernel and images, and keeps the workspace, packs and settings. `osaurus-sandbox up` makes them\nagain.",
			confirm: "The guest's disk, with all that was installed in it, and its images will be gone. The workspace is kept.",
			flags:   []string{"--" + restFlag},
			do:      asking((*control.Client).Remove),
		},
	} {
		list = append(list, newMachineCommand(c, m))
	}
	return list
}

func newMachineCommand(c console, m machineCommand) *cobra.Command {
	var yes bool
	example := "  osaurus-sandbox " + m.use
	if m.confirm != "" {
		example += "\n" + example + " --yes"
	}
	cmd := &cobra.Command{
		Use: m.use, Short: m.short, Long: m.long,
		Example: example,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if m.confirm != "" {
				if err := confirm(ctx, c, yes, m.use, m.confirm); err != nil {
					return err
				}
			}
			client, err := needWith(ctx, clientName, m.flags...)
			if err != nil {
				return err
			}
			defer client.Close()
			status, err := withProgress(ctx, c, client, func() (*controlpb.Status, error) { return m.do(ctx, client) })
			if err == nil {
				noteAnotherBuild(ctx, c, client)
			}
			return reply(cmd, status, err, printStatus)
		},
	}
	if m.confirm != "" {
		cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	}
	return withJSON(cmd)
}

func newDown(c console) *cobra.Command {
	var daemon bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Power the guest off",
		Long: `Ends what runs in the guest, has it write everything to its disk, and powers it off, by force if it does not react. The daemon
goes on, and starts the guest again for the next command that needs it. With --daemon the daemon ends too.`,
		Example: `  osaurus-sandbox down
  osaurus-sandbox down --daemon`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, noDaemon := cmd.Context(), map[string]bool{"daemon": false} // JSON for programs
			home, err := config.FindHome()
			if err != nil {
				return err
			}
			client, err := control.Connect(ctx, home, clientName)
			if fault.KindOf(err) == fault.Unavailable {
				// No guest runs: it ends with its daemon.
				return reply(cmd, noDaemon, released(ctx, home), nil)
			}
			if err != nil {
				return err
			}
			defer client.Close()
			if daemon { // even one of another version
				return reply(cmd, noDaemon, quit(ctx, client, home), nil)
			}
			status, err := withProgress(ctx, c, client, func() (*controlpb.Status, error) {
				return answer(client.Down(ctx, &controlpb.DownRequest{}))
			})
			return reply(cmd, status, err, printStatus)
		},
	}
	cmd.Flags().BoolVar(&daemon, "daemon", false, "end the daemon too")
	return withJSON(cmd)
}

// asking adapts an API call without arguments to machineCommand.do.
func asking[Q any, R interface{ GetStatus() *controlpb.Status }](call func(*control.Client, context.Context, *Q) (R, error)) func(context.Context, *control.Client) (*controlpb.Status, error) {
	return func(ctx context.Context, client *control.Client) (*controlpb.Status, error) {
		return answer(call(client, ctx, new(Q)))
	}
}

// answer returns the status in a response.
func answer[R interface{ GetStatus() *controlpb.Status }](r R, err error) (*controlpb.Status, error) {
	return r.GetStatus(), err
}

// provision returns the last status of provisioning. withProgress shows its progress.
func provision(ctx context.Context, s *control.Client) (last *controlpb.Status, err error) {
	for r, err := range control.Messages(s.Provision(ctx, &controlpb.ProvisionRequest{})) {
		if err != nil {
			return nil, err
		}
		last = r.Status
	}
	return last, nil
}

func newStatus(c console) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the sandbox's status",
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

// printStatusLine prints the status on one line.
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
