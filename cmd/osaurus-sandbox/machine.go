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

// newMachineCommands returns the commands that change the state of the sandbox.
func newMachineCommands() []*cobra.Command {
	return []*cobra.Command{
		newDown(),
		machineCommand("up", "", (*control.Client).Up),
		machineCommand("restart", "", (*control.Client).Restart),
		machineCommand("provision", "", (*control.Client).Provision),
		machineCommand("reset", "All that was installed or changed in the guest will be gone. The workspace is kept.", (*control.Client).Reset),
		machineCommand("remove", "The guest's disk, with all that was installed in it, and its images will be gone. The workspace is kept.", (*control.Client).Remove),
	}
}

// machineCall is a method of the client that changes the state of the sandbox.
type machineCall func(*control.Client, context.Context, *controlpb.MachineRequest) (*controlpb.StatusResponse, error)

// machineCommand returns a command that changes the state of the sandbox. If it destroys
// something, loss says what, and a person has to confirm it.
func machineCommand(use, loss string, do machineCall) *cobra.Command {
	var options []option
	var flags []string
	if loss != "" {
		options = append(options, asks(use, loss))
		flags = append(flags, "--"+restFlag) // a daemon that this command starts must not start the guest
	}
	return command(use, func(ctx context.Context, c *call) error {
		if err := c.connect(ctx, flags...); err != nil {
			return err
		}
		noteAnotherBuild(ctx, c)
		return changeMachine(ctx, c, do)
	}, options...)
}

// changeMachine calls do, shows its progress, and prints the status.
func changeMachine(ctx context.Context, c *call, do machineCall) error {
	stop := followProgress(ctx, c, 0)
	r, err := do(c.Client, ctx, &controlpb.MachineRequest{})
	stop()
	return reply(c, r.GetStatus(), err, printStatus)
}

func newDown() *cobra.Command {
	var daemon bool
	return command("down", func(ctx context.Context, c *call) error {
		noDaemon := map[string]bool{"daemon": false} // JSON for programs
		home, err := config.FindHome()
		if err != nil {
			return err
		}
		c.Client, err = control.Connect(ctx, home, clientName)
		if fault.KindOf(err) == fault.Unavailable {
			// No guest runs: it ends with its daemon.
			return reply(c, noDaemon, released(ctx, home), nil)
		}
		if err != nil {
			return err
		}
		if daemon { // even one of another version
			return reply(c, noDaemon, quit(ctx, c.Client, home), nil)
		}
		return changeMachine(ctx, c, (*control.Client).Down)
	}, withFlag(&daemon, "daemon", "end the daemon too"))
}

func newStatus() *cobra.Command {
	var watch bool
	return command("status", func(ctx context.Context, c *call) error {
		if err := c.reach(ctx); err != nil {
			return err
		}
		noteAnotherBuild(ctx, c)
		if !watch {
			r, err := c.Status(ctx, &controlpb.StatusRequest{})
			return reply(c, r.GetStatus(), err, printStatus)
		}
		return replyEach(c, func(yield func(*controlpb.Status, error) bool) {
			for r, err := range control.Messages(c.WatchStatus(ctx, &controlpb.WatchStatusRequest{})) {
				if !yield(r.GetStatus(), err) {
					return
				}
			}
		}, printStatusLine)
	}, withFlag(&watch, "watch", "show it again whenever it changes"))
}

// printStatusLine prints the status on one line.
func printStatusLine(w io.Writer, s *controlpb.Status) error {
	line := paintFor(w).state(s.State)
	if s.Operation != "" {
		line += safef(", %s", s.Operation)
	}
	for _, step := range s.GetProgress().GetSteps() {
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
		table.field("not enforced", strings.Join(m.NotEnforced, "; "))
	}
	if g := s.Guest; g != nil {
		table.field("guest", fmt.Sprintf("%s, Linux %s, up %s", cmp.Or(g.Distribution, "unnamed"), g.Kernel, ago(s.Started.AsTime())))
		table.field("memory", fmt.Sprintf("%.1f of %.1f GB free", gigabytes(g.MemoryAvailable), gigabytes(g.MemoryTotal)))
		table.field("network", strings.Join(append([]string{g.Network}, nonEmpty(g.NetworkTrouble)...), ", "))
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
