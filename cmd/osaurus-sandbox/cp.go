package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/copyfiles"
	"osaurus-sandbox/supervisor/machine"
)

func newCp() *cobra.Command {
	return command("cp SRC... DST", func(ctx context.Context, c *call) error {
		way, err := parseCopy(c.args, c.json)
		if err != nil {
			return err
		}
		if err := c.connect(ctx); err != nil {
			return err
		}
		sum, err := way.do(ctx, c)
		return reply(c, sum, err, func(_ io.Writer, sum copyfiles.Sum) error { return printLeftOut(c.err, sum) })
	})
}

// copying is a copy in one direction.
type copying struct {
	agent   string
	out     bool // out of the agent's room
	sources []string
	target  string
}

// stream means standard input or output.
const stream = "-"

func parseCopy(args []string, asJSON bool) (copying, error) {
	wrong := func(why, advice string) (copying, error) {
		return copying{}, fault.New(fault.InvalidArgs, "copy", "", errors.New(why)).Advise(advice)
	}
	last := len(args) - 1
	agent, target := parsePath(args[last])
	way := copying{agent: agent, out: agent == "", target: target}
	if slices.Contains(args, "") {
		return wrong("a path is empty", "Write . for the current folder.")
	}
	for _, arg := range args[:last] {
		from, file := parsePath(arg)
		switch {
		case (from == "") == way.out:
			return wrong("one side must be an agent's path, the other a path on this computer", "Write an agent's path as AGENT:PATH: osaurus-sandbox cp report.pdf alice:")
		case way.out && way.agent != "" && way.agent != from:
			return wrong("the sources belong to different agents", "Copy from one agent at a time.")
		case way.out:
			way.agent = from
		}
		way.sources = append(way.sources, file)
	}
	name, in := path.Base(target), !way.out && slices.Contains(way.sources, stream)
	switch several := len(way.sources) > 1; {
	case several && (way.out && target == stream || in):
		return wrong("- is one file", "Copy the others separately.")
	case in && (strings.HasSuffix(target, "/") || name == "." || name == ".."):
		return wrong("standard input needs a file name", "Give one.")
	case way.out && target == stream && asJSON:
		return wrong("- and --json cannot be combined", "Standard output can have the file or the result, not both.")
	case several && !strings.HasSuffix(target, "/"):
		way.target = path.Join(target, ".") + "/" // a folder that must exist
	}
	return way, nil
}

// parsePath parses AGENT:PATH. The agent is empty for a path on this computer.
func parsePath(text string) (agent, file string) {
	agent, file, colon := strings.Cut(text, ":")
	if !colon || agent == "" || strings.Contains(agent, "/") {
		return "", text
	}
	return agent, file
}

// do copies. The guest must be running.
func (w copying) do(ctx context.Context, c *call) (all copyfiles.Sum, err error) {
	shown, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: w.agent})
	if err != nil {
		return all, err
	}
	if err := hasGuest(ctx, c); err != nil {
		return all, err
	}
	var report progress.Func
	if terminalWidth(c.err) > 0 && w.sources[0] != stream && w.target != stream { // a piped program may draw on the same terminal
		report = showProgress(c.err)
	}
	for _, source := range w.sources {
		var sum copyfiles.Sum
		meter := report.Start("copy "+source, 0, 0)
		if w.out {
			sum, err = w.get(ctx, c, source, path.Base(path.Join(shown.Agent.Home, source)), meter)
		} else {
			sum, err = w.put(ctx, c, source, meter)
		}
		if err != nil {
			return all, err
		}
		meter.Finish()
		all.Files += sum.Files
		all.Bytes += sum.Bytes
		all.LeftOut = append(all.LeftOut, sum.LeftOut...)
	}
	return all, nil
}

// hasGuest starts the guest if needed, so that its progress is finished before the copy's begins.
func hasGuest(ctx context.Context, c *call) error {
	now, err := c.Status(ctx, &controlpb.StatusRequest{})
	if err != nil || machine.State(now.Status.State).HasGuest() { // starting a running guest would add an audit entry
		return err
	}
	stop := showStart(ctx, c)
	defer stop()
	_, err = c.Up(ctx, &controlpb.MachineRequest{})
	return err
}

// get copies one source out of the room.
func (w copying) get(ctx context.Context, c *call, source, name string, meter io.Writer) (copyfiles.Sum, error) {
	if path.IsAbs(source) {
		name = path.Base(path.Clean(source))
	}
	archive, err := control.ReadChunks(c.Files.CopyOut(ctx, &controlpb.CopyOutRequest{Agent: w.agent, Path: source}))
	if err != nil {
		return copyfiles.Sum{}, err
	}
	defer archive.Close()
	counted := io.TeeReader(archive, meter)
	if w.target == stream {
		return copyfiles.Print(ctx, counted, name, c.out)
	}
	return copyfiles.Place(ctx, counted, name, w.target)
}

// put copies one source into the room.
func (w copying) put(ctx context.Context, c *call, source string, meter io.Writer) (sum copyfiles.Sum, err error) {
	target, name := w.target, ""
	pack := func(to io.Writer) (copyfiles.Sum, error) { return copyfiles.Pack(ctx, to, source, name) }
	if source == stream {
		kept, err := keepInput(ctx, c.in)
		if err != nil {
			return sum, err
		}
		defer kept.Close()
		target, name = path.Split(target) // as this name, not into a folder of this name
		pack = func(to io.Writer) (copyfiles.Sum, error) { return copyfiles.PackFile(ctx, to, kept, name) }
	} else if name, err = filepath.Abs(source); err != nil {
		return sum, err
	} else if _, err = os.Stat(source); err != nil { // fail before anything is created in the room
		return sum, err
	}
	name = filepath.Base(name)
	err = c.CopyIn(ctx, w.agent, target, name, func(to io.Writer) (err error) {
		sum, err = pack(io.MultiWriter(to, meter))
		return err
	})
	return sum, err
}

// keepInput saves standard input to an unlinked temporary file, because an archive must state the
// size of a file before its content. The context can interrupt it.
func keepInput(ctx context.Context, in io.Reader) (f *os.File, err error) {
	if f, err = os.CreateTemp("", "osaurus-sandbox-cp-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	read := make(chan error, 1)
	go func() { // keeps waiting for input if the context ends first
		_, err := io.Copy(f, in)
		read <- err
	}()
	select {
	case err = <-read:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, err
}

// printLeftOut lists what was not copied.
func printLeftOut(w io.Writer, sum copyfiles.Sum) error {
	if n := len(sum.LeftOut); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" and %d more", n-1)
		}
		return writef(w, "skipped (a link that leads elsewhere, a pipe or a device): %s%s\n", sum.LeftOut[0], more)
	}
	return nil
}
