package guest

import (
	"context"
	"io"
	"sync"

	"connectrpc.com/connect"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/printable"
)

// attachment implements engine.Attachment.
type attachment struct {
	client *Client
	stream *connect.BidiStreamForClientSimple[guestpb.ShellAttachRequest, guestpb.ShellAttachResponse]
	cancel context.CancelFunc
	sendMu sync.Mutex // a stream has one sender at a time
	done   chan struct{}
	end    engine.Exit // after done
	err    error       // after done
}

// AttachShell implements engine.Shells. Only a terminal should interpret the output, which comes
// from the room.
func (c room) AttachShell(ctx context.Context, shell engine.Shell, size engine.TerminalSize, output io.Writer) (engine.Attachment, error) {
	open := &guestpb.ShellOpen{Shell: c.shell(shell), Size: resizeTo(size)}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.shells.Attach(ctx)
	if err != nil {
		defer cancel()
		return nil, c.fault(ctx, err)
	}
	first, err := openStream(ctx, stream, &guestpb.ShellAttachRequest{What: &guestpb.ShellAttachRequest_Open{Open: open}})
	if err != nil {
		defer cancel()
		return nil, c.fault(ctx, err)
	}
	a := &attachment{client: c.Client, stream: stream, cancel: cancel, done: make(chan struct{})}
	go a.follow(ctx, first, output)
	return a, nil
}

// Write implements engine.Attachment.
func (a *attachment) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(len(p), n+protocol.Chunk)]
		if err := a.send(&guestpb.ShellAttachRequest{What: &guestpb.ShellAttachRequest_Input{Input: part}}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// Resize implements engine.Attachment.
func (a *attachment) Resize(size engine.TerminalSize) error {
	return a.send(&guestpb.ShellAttachRequest{What: &guestpb.ShellAttachRequest_Resize{Resize: resizeTo(size)}})
}

func (a *attachment) send(m *guestpb.ShellAttachRequest) error {
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	return faultrpc.Decode("type into shell", "", a.stream.Send(m))
}

// Close implements engine.Attachment.
func (a *attachment) Close() error {
	a.cancel()
	<-a.done
	return nil
}

// Done implements engine.Attachment.
func (a *attachment) Done() <-chan struct{} { return a.done }

// Wait implements engine.Attachment.
func (a *attachment) Wait() (engine.Exit, error) {
	<-a.done
	return a.end, a.err
}

func (a *attachment) follow(ctx context.Context, m *guestpb.ShellAttachResponse, output io.Writer) {
	defer close(a.done)
	defer a.cancel()
	for {
		if ended := m.GetEnded(); ended != nil {
			a.end = engine.Exit{Code: int(ended.Code), Cause: printable.Clip(ended.Cause)}
			return
		}
		if a.err = Deliver(output, "terminal", m.GetOutput()); a.err != nil {
			return
		}
		var err error
		if m, err = a.stream.Receive(); err != nil {
			a.err = a.client.fault(ctx, streamEnd(ctx, err))
			return
		}
	}
}

func resizeTo(size engine.TerminalSize) *guestpb.Resize {
	return &guestpb.Resize{Rows: uint32(size.Rows), Cols: uint32(size.Cols)}
}
