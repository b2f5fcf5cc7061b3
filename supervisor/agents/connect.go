package agents

import (
	"context"
	"fmt"
	"io"

	"osaurus-sandbox/config"
)

// Connect connects in and out to a port on the loopback of an agent's room, until the
// other side ends the connection. Secrets are not redacted: lengths must stay true. It
// fails with NotFound if nothing listens, and with Unavailable if no guest runs.
func (a *Agents) Connect(ctx context.Context, ref string, port config.Port, in io.Reader, out io.Writer) error {
	agent, err := a.Get(ref)
	if err != nil {
		return err
	}
	lease, agent, err := a.RunningRoom(string(agent.ID)).Enter(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	conn, err := lease.ConnectPort(ctx, agent.User, port)
	if err == nil {
		defer conn.Close()
		go func() {
			_, _ = io.Copy(conn, in)
			_ = conn.CloseWrite()
		}()
		_, err = io.Copy(out, conn)
	}
	if err != nil {
		return a.broken("connect to port", fmt.Sprintf("%v of %s", port, agent.Name), agent, err)
	}
	return nil
}
