package main

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
)

// tailBytes is how far back the last lines are looked for: the most that the
// daemon reads back at once.
const tailBytes = 64 << 10

func newJobTail(c console) *cobra.Command {
	var follow, all bool
	var lines uint
	cmd := &cobra.Command{
		Use:   "tail AGENT JOB",
		Short: "Print what a job has written",
		Long:  "Prints the last lines that a job has written, to standard output or error, and with -f what it writes until its end.",
		Example: `  osaurus-sandbox job tail -f alice 3f2a
  osaurus-sandbox job tail alice 3f2a --all > build.log`,
		RunE: withJob(func(cmd *cobra.Command, client *control.Client, agent, id string) error {
			request := &controlpb.TailJobRequest{Agent: agent, Id: id, FromEnd: tailBytes, Follow: follow}
			if all {
				request.FromEnd = 0
			}
			stream, err := client.Jobs.Tail(cmd.Context(), request)
			if err != nil {
				return err
			}
			defer stream.Close()
			show := func(part *controlpb.TailJobResponse) error {
				if wantsJSON(cmd) {
					return printLine(c.out, part)
				}
				_, err := c.out.Write(part.Data)
				return err
			}
			if all {
				return each(stream, show)
			}
			return tailLines(stream, int(lines), follow, show)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	cmd.Flags().BoolVar(&all, "all", false, "from the beginning, as far as it is kept")
	cmd.Flags().UintVarP(&lines, "lines", "n", 10, "how many lines")
	return withJSON(cmd)
}

// jobOutput is what the daemon answers of a job's output, part by part.
type jobOutput = connect.ServerStreamForClient[controlpb.TailJobResponse]

// each shows all parts as they come.
func each(stream *jobOutput, show func(*controlpb.TailJobResponse) error) error {
	for stream.Receive() {
		if err := show(stream.Msg()); err != nil {
			return err
		}
	}
	return stream.Err()
}

// tailLines shows the last lines of what has been written by now, and where that is followed
// all that comes: the first part is then what there was, if anything; else it is all parts,
// and they are one.
func tailLines(stream *jobOutput, lines int, follow bool, show func(*controlpb.TailJobResponse) error) error {
	if !stream.Receive() {
		return stream.Err()
	}
	part := stream.Msg()
	for !follow && stream.Receive() {
		more := stream.Msg()
		part.Data, part.Next, part.Job = append(part.Data, more.Data...), more.Next, more.Job
	}
	last := []byte(printable.LastLines(string(part.Data), lines))
	part.Data, part.Offset = last, part.Offset+uint64(len(part.Data)-len(last))
	if err := show(part); err != nil {
		return err
	}
	return each(stream, show)
}
