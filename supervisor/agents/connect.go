package agents

import (
	"context"
	"fmt"
	"io"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/hatch"
	"osaurus-sandbox/internal/fault"
)

// Connect carries in and out to what listens on a port of an agent's own loopback, and
// returns when that has ended the connection. Nothing is taken out of what comes: it would
// no longer be what its reader has been told how long it is. It fails with NotFound where
// nothing listens, and with Unavailable where no guest runs.
//
// A program of the room's own does it: as the agent, within its limits and on its network,
// so that nothing of the host or of the guest's root touches what the agent sends.
func (a *Agents) Connect(ctx context.Context, ref string, port config.Port, in io.Reader, out io.Writer) error {
	const op = "connect to port"
	l, m, err := a.enter(ctx, ref, a.borrowRunning)
	if err != nil {
		return err
	}
	defer l.Return()
	agent := a.agentOf(m)
	subject := fmt.Sprintf("%v of %s", port, agent.Name)
	p, err := l.Exec(ctx, engine.Command{
		Args: []string{hatch.Program, hatch.Connect, port.String()},
		Env:  []string{"GOMAXPROCS=1"}, // it copies: more threads would only count against the room's processes
		Room: agent.User, Stdin: in, Stdout: out,
	})
	if err != nil {
		return a.broken(op, subject, agent, err)
	}
	exit, err := p.Wait()
	switch {
	case err != nil:
		return a.broken(op, subject, agent, err)
	case exit.Signal == 0 && exit.Code == fault.ExitNotFound:
		return fault.Newf(fault.NotFound, op, subject, "nothing listens there").Advise("Have it listen on 127.0.0.1, or on all addresses, in the agent's room.")
	case exit.Status() != 0:
		return fault.Newf(fault.Execution, op, subject, "what carries it in the room ended with %d", exit.Status()).
			Advise("See whether the room is at a limit: osaurus-sandbox top.")
	}
	return nil
}
