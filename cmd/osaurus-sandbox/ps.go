package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

func newPs(c console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [AGENT]",
		Short: "List what runs for agents",
		Long:  "Lists the processes of an agent, or of all. It starts no guest: without one nothing runs.",
		Example: `  osaurus-sandbox ps
  osaurus-sandbox ps alice`,
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			r, err := client.Agents.Processes(cmd.Context(), &controlpb.AgentProcessesRequest{Agent: first(args)})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printProto(c.out, r)
			}
			table := newTable(c.out)
			fmt.Fprintln(table, "AGENT\tPID\tSTATE\tCPU\tMEMORY\tSTARTED\tCOMMAND")
			for _, p := range r.Processes {
				writef(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", p.Agent, p.Pid, p.State, p.Cpu.AsDuration().Round(10*time.Millisecond),
					bytesText(p.Memory), p.Started.AsTime().Local().Format(time.TimeOnly), p.Command)
			}
			if err := table.Flush(); err != nil {
				return err
			}
			if r.Truncated {
				_, err = fmt.Fprintln(c.err, "There are more.")
			}
			return err
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
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
