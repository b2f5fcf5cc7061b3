package agents

import (
	"context"
	"io"
	"path"
	"strings"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/copyfiles"
)

// CopyOut writes a file or a folder of an agent's room as a tar archive, which
// copyfiles.Place extracts. Secrets are not redacted in it.
func (a *Agents) CopyOut(ctx context.Context, ref, file string, to io.Writer) error {
	const op = "copy"
	agent, err := a.Get(ref)
	if err != nil {
		return err
	}
	at, subject := agent.within(file), string(agent.Name)+":"+file
	if at == "/" {
		return fault.Newf(fault.InvalidArgs, op, subject, "it is the whole room").Advise("Name a file or a folder in it.")
	}
	return a.script(ctx, agent, op, subject, engine.Command{
		Args: []string{"/bin/sh", "-c", copyfiles.OutScript, "sh", "./" + path.Base(at)}, Dir: path.Dir(at), Stdout: to,
	})
}

// CopyIn extracts an archive of copyfiles.Pack, whose top entry is name, in an
// agent's room.
func (a *Agents) CopyIn(ctx context.Context, ref, to, name string, from io.Reader) error {
	const op = "copy to"
	agent, err := a.Get(ref)
	if err != nil {
		return err
	}
	at, subject := agent.within(to), string(agent.Name)+":"+to
	if strings.HasSuffix(to, "/") {
		at = strings.TrimSuffix(at, "/") + "/"
	}
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return fault.Newf(fault.InvalidArgs, op, subject, "%q is not a file name", name).Advise("Name one file or folder.")
	}
	return a.script(ctx, agent, op, subject, engine.Command{Args: []string{"/bin/sh", "-c", copyfiles.InScript, "sh", at, name}, Stdin: from})
}

// within returns a path of an agent's room. Relative paths are below its home.
func (a Agent) within(file string) string {
	if path.IsAbs(file) {
		return path.Clean(file)
	}
	return path.Join(a.Home(), file)
}

// script runs one end of a copy in an agent's room, as the agent.
func (a *Agents) script(ctx context.Context, agent Agent, op, subject string, cmd engine.Command) error {
	var said complaint
	cmd.Stderr = &said
	exit, err := a.Room(string(agent.ID)).run(ctx, op, subject, cmd)
	switch {
	case fault.KindOf(err) == fault.NotFound && a.Has(agent.ID):
		return notThere(op, subject) // the folder that it is in
	case err != nil:
		return err
	case exit.Status() == copyfiles.ExitNotFound:
		return notThere(op, subject)
	case exit.Status() == copyfiles.ExitRefused:
		return fault.Newf(fault.Rejected, op, subject, "a file and a folder cannot take each other's place").Advise("Choose another name, or remove what is there.")
	case exit.Status() != 0:
		return fault.Newf(fault.Execution, op, subject, "the command in the room ended with %d: %s", exit.Status(), said).
			Advise("Check that the disk is not full; its limits are limits.homeMB and limits.diskMB.")
	}
	return nil
}

func notThere(op, subject string) error {
	return fault.Newf(fault.NotFound, op, subject, "no such file or folder in the room").Advise("Relative paths are below the agent's home.")
}

// maxComplaint bounds how much of a failed command's error output is kept.
const maxComplaint = 2 << 10

// complaint keeps the beginning of what is written to it.
type complaint []byte

func (c *complaint) Write(p []byte) (int, error) {
	*c = append(*c, p[:min(len(p), maxComplaint-len(*c))]...)
	return len(p), nil
}

func (c complaint) String() string { return strings.TrimSpace(string(c)) }
