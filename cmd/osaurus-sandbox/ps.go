package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newPs(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "ps [AGENT]",
		Short: "List what runs for agents",
		Long:  "Lists the processes of an agent, or of all. It does not start the guest: if that does not run, there are none.",
		Example: `  osaurus-sandbox ps
  osaurus-sandbox ps alice`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Agents.Processes(cmd.Context(), &controlpb.AgentProcessesRequest{Agent: first(args)})
			return reply(cmd, r, err, func(w io.Writer, r *controlpb.AgentProcessesResponse) error {
				if r.Truncated {
					defer writef(c.err, "There are more.\n")
				}
				return printTable(w, "AGENT\tPID\tSTATE\tCPU\tMEMORY\tSTARTED\tCOMMAND", r.Processes, func(p *controlpb.AgentProcess) []any {
					return []any{p.Agent, p.Pid, p.State, p.Cpu.AsDuration().Round(10 * time.Millisecond), bytesText(p.Memory), p.Started.AsTime().Local().Format(time.TimeOnly), p.Command}
				})
			})
		}),
	})
}

// first is the first argument, or empty.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// bytesText is a number of bytes for a person: "1.5M".
func bytesText(n uint64) string {
	const step = 1024
	value, unit := float64(n), 0
	for value >= step && unit < len("BKMGT")-1 {
		value, unit = value/step, unit+1
	}
	if unit == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%.1f%c", value, "BKMGT"[unit])
}
