package control

import (
	"context"
	"io"

	"osaurus-sandbox/engine"
)

// Attachment is a terminal that is attached to the shell of a session. It implements engine.Attachment.
type Attachment struct {
	*Process
	io.Writer // types
}

// Attach attaches to a session's shell and writes what its terminal shows to output.
// Closing the attachment, or cancelling the context, leaves the shell as it is.
func (c *Client) Attach(ctx context.Context, agent string, shell engine.Shell, size engine.TerminalSize, output io.Writer) (*Attachment, error) {
	keys, typed := io.Pipe()
	p, err := c.Run(ctx, RunAs{Agent: agent, session: string(shell.Session), attach: true}, engine.Command{
		Terminal: &engine.Terminal{Size: size}, Stdin: keys, Stdout: output, Env: shell.Env, Dir: shell.Dir,
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(p.ctx, func() { _ = keys.Close() }) // releases a writer
	return &Attachment{p, typed}, nil
}

// Close detaches.
func (a *Attachment) Close() error {
	a.cancel()
	<-a.done
	return nil
}
