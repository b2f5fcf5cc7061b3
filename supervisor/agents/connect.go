package agents

import (
	"context"
	"fmt"
	"io"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
)

// Connect connects in and out to a port on the loopback of an agent's room, until the
// other side ends the connection. Secrets are not redacted: lengths must stay true. It
// fails with NotFound if nothing listens, and with Unavailable if no guest runs.
//
// A program in the room makes the connection, as the agent and within its limits.
func (a *Agents) Connect(ctx context.Context, ref string, port config.Port, in io.Reader, out io.Writer) error {
	const op = "connect to port"
	agent, err := a.Get(ref)
	if err != nil {
		return err
	}
	subject := fmt.Sprintf("%v of %s", port, agent.Name)
	exit, err := a.RunningRoom(string(agent.ID)).run(ctx, op, subject, engine.Command{
		Args:  []string{protocol.ShimPath, wire.Connect, port.String()},
		Env:   []string{"GOMAXPROCS=1"}, // it copies: more threads would only count against the room's processes
		Stdin: in, Stdout: out,
	})
	switch {
	case err != nil:
		return err
	case exit.Signal == 0 && exit.Code == fault.ExitNotFound:
		return fault.Newf(fault.NotFound, op, subject, "nothing listens on it").Advise("Start a server in the agent's room that listens on 127.0.0.1 or on all addresses.")
	case exit.Status() != 0:
		return fault.Newf(fault.Execution, op, subject, "the helper in the room ended with status %d", exit.Status()).
			Advise("Check whether the room is at a limit: osaurus-sandbox top")
	}
	return nil
}
