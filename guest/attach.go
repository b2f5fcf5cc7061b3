package guest

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/internal/wire"
	"osaurus-sandbox/internal/printable"
)

// Attachment is a person before the shell of a session.
type Attachment struct {
	stream *connect.BidiStreamForClientSimple[guestpb.ShellAttachRequest, guestpb.ShellAttachResponse]
	cancel context.CancelFunc
	sendMu sync.Mutex // a stream has one sender at a time
	done   chan struct{}
	end    engine.ShellEnd // after done
	err    error           // after done
}

// AttachShell attaches to a session's shell and makes that if need be. What its
// terminal shows is written to output, the recent transcript first; it comes from
// the room, so only a terminal should obey it. Closing the attachment or
// cancelling the context leaves the shell as it is.
func (c *Client) AttachShell(ctx context.Context, shell engine.Shell, size engine.TerminalSize, output io.Writer) (*Attachment, error) {
	const op = "attach to shell"
	open := &guestpb.ShellOpen{Shell: shellProto(shell), Size: resizeTo(size)}
	if err := wire.CheckShellOpen(open); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.shells.Attach(ctx)
	if err != nil {
		cancel()
		return nil, wire.Decode(op, string(shell.Session), err)
	}
	a := &Attachment{stream: stream, cancel: cancel, done: make(chan struct{})}
	err = a.stream.Send(&guestpb.ShellAttachRequest{What: &guestpb.ShellAttachRequest_Open{Open: open}})
	var first *guestpb.ShellAttachResponse
	if err == nil || errors.Is(err, io.EOF) { // with EOF, Receive has the reason
		first, err = a.stream.Receive()
	}
	if err != nil {
		cancel()
		return nil, wire.Decode(op, string(shell.Session), err)
	}
	// The transport looks at the context only when the request has ended.
	context.AfterFunc(ctx, func() { _ = a.stream.CloseRequest() })
	go a.follow(ctx, first, output)
	return a, nil
}

// Write types.
func (a *Attachment) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(len(p), n+wire.Chunk)]
		if err := a.send(&guestpb.ShellAttachRequest{What: &guestpb.ShellAttachRequest_Input{Input: part}}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// Resize changes the terminal's size, for everybody who is attached.
func (a *Attachment) Resize(size engine.TerminalSize) error {
	return a.send(&guestpb.ShellAttachRequest{What: &guestpb.ShellAttachRequest_Resize{Resize: resizeTo(size)}})
}

func (a *Attachment) send(m *guestpb.ShellAttachRequest) error {
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	if err := a.stream.Send(m); err != nil {
		return wire.Decode("type into shell", "", err)
	}
	return nil
}

// Close detaches.
func (a *Attachment) Close() error {
	a.cancel()
	<-a.done
	return nil
}

// Done is closed when Wait would not block.
func (a *Attachment) Done() <-chan struct{} { return a.done }

// Wait returns when the shell has ended, or with an error when the attachment
// has: it was closed, the connection broke, or output could not be written.
func (a *Attachment) Wait() (engine.ShellEnd, error) {
	<-a.done
	return a.end, a.err
}

func (a *Attachment) follow(ctx context.Context, m *guestpb.ShellAttachResponse, output io.Writer) {
	defer close(a.done)
	defer a.cancel()
	for {
		if ended := m.GetEnded(); ended != nil {
			a.end = engine.ShellEnd{Code: int(ended.Code), Cause: printable.Clip(ended.Cause)}
			return
		}
		if a.err = Deliver(output, "terminal", m.GetOutput()); a.err != nil {
			return
		}
		var err error
		if m, err = a.stream.Receive(); err != nil {
			a.err = wire.Decode("follow shell", "", streamEnd(ctx, err))
			return
		}
	}
}

func resizeTo(size engine.TerminalSize) *guestpb.Resize {
	return &guestpb.Resize{Rows: uint32(size.Rows), Cols: uint32(size.Cols)}
}
