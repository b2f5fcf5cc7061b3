package control

import (
	"context"
	"io"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
)

// Attachment is a terminal that is attached to the shell of a session.
type Attachment struct {
	*duplex[controlpb.AttachRequest, controlpb.AttachResponse]
	end engine.ShellEnd // after done
	err error           // after done
}

// Attach attaches to a session's shell and writes what its terminal shows to output.
// Closing the attachment, or cancelling the context, leaves the shell as it is.
func (c *Client) Attach(ctx context.Context, agent string, shell engine.Shell, size engine.TerminalSize, output io.Writer) (*Attachment, error) {
	stream, first, err := begin(ctx, c.Shells.Attach, &controlpb.AttachRequest{What: &controlpb.AttachRequest_Open{Open: &controlpb.AttachOpen{
		Agent: agent, Session: string(shell.Session), Size: resize(size), Env: shell.Env, Dir: shell.Dir,
	}}})
	if err != nil {
		return nil, err
	}
	a := &Attachment{duplex: stream}
	a.keepOpen()
	go a.follow(first, output)
	return a, nil
}

func resize(size engine.TerminalSize) *controlpb.Resize {
	return &controlpb.Resize{Rows: uint32(size.Rows), Cols: uint32(size.Cols)}
}

// Write types.
func (a *Attachment) Write(p []byte) (int, error) {
	return inChunks(func(b []byte) error {
		return a.send(&controlpb.AttachRequest{What: &controlpb.AttachRequest_Input{Input: b}})
	}).Write(p)
}

// Resize changes the terminal's size, for everybody who is attached.
func (a *Attachment) Resize(size engine.TerminalSize) error {
	return a.send(&controlpb.AttachRequest{What: &controlpb.AttachRequest_Resize{Resize: resize(size)}})
}

// Close detaches.
func (a *Attachment) Close() error {
	a.cancel()
	<-a.done
	return nil
}

// Wait returns when the shell has ended, or with an error when the attachment
// has: it was closed, the daemon or the guest ended, or output could not be
// written.
func (a *Attachment) Wait() (engine.ShellEnd, error) {
	<-a.done
	return a.end, a.err
}

func (a *Attachment) follow(m *controlpb.AttachResponse, output io.Writer) {
	defer close(a.done)
	defer a.cancel()
	for {
		if ended := m.GetEnded(); ended != nil {
			a.end = engine.ShellEnd{Code: int(ended.Status), Cause: ended.Cause}
			return
		}
		if a.err = guest.Deliver(output, "terminal", m.GetOutput()); a.err != nil {
			return
		}
		if m, a.err = a.receive(); a.err != nil {
			return
		}
	}
}
