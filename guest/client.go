// Package guest is the host's end of the guest protocol: it greets a booting guest, asks for its state and runs the rooms of agents in it.
package guest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/printable"
)

// Port is the AF_VSOCK port that a guest answers on.
const Port = protocol.Port

// EntryPort is the AF_VSOCK port for commands without input and for connections to file workers.
const EntryPort = protocol.DataPort

const (
	// redial is the pause between two attempts to reach a booting guest. A
	// refused attempt costs microseconds, and a boot should not wait for us.
	redial = 5 * time.Millisecond
	// callTimeout bounds every call that answers at once, whatever the
	// caller's context says.
	callTimeout = 10 * time.Second
	// endDelay is how long the machine's end may be noticed after its connection broke.
	endDelay = time.Second
	// entropySize fills the guest's pool (256 bits) with some to spare.
	entropySize = 64
)

// Machine is the machine that a guest runs in.
type Machine interface {
	// Dial connects to an AF_VSOCK port of the guest.
	Dial(ctx context.Context, port uint32) (net.Conn, error)
	// Done is closed when the machine ends.
	Done() <-chan struct{}
}

// Dialer is a Machine that only dials and never ends.
type Dialer func(ctx context.Context, port uint32) (net.Conn, error)

// Dial implements Machine.
func (d Dialer) Dial(ctx context.Context, port uint32) (net.Conn, error) { return d(ctx, port) }

// Done implements Machine.
func (Dialer) Done() <-chan struct{} { return nil }

// ErrSilent reports that a guest did not answer in time.
var ErrSilent = errors.New("the guest does not answer")

// Client talks to one boot of one guest. It implements engine.Engine. Its
// methods may be called by many goroutines at once. Their errors are faults:
// Unavailable when the guest cannot be reached, Timeout when it does not answer,
// otherwise the guest's own error.
type Client struct {
	rpc       guestpbconnect.GuestClient
	commands  guestpbconnect.GuestClient // for commands without input
	rooms     guestpbconnect.RoomsClient
	snapshots guestpbconnect.SnapshotsClient
	shells    guestpbconnect.ShellsClient
	jobs      guestpbconnect.JobsClient
	ports     guestpbconnect.PortsClient
	mounts    guestpbconnect.MountsClient
	files     guestpbconnect.FilesClient
	transport *http.Transport
	data      []*http.Transport // of commands and files
	conns     *conns
	key       protocol.Key
	version   string
	base      string // the name of the guest's base
}

// Connect waits for a booting guest, sends it a new key, the time, entropy and boot, and returns when it can run commands. Cancel the context if the machine ends.
//
// It fails with Rejected if the guest has another version or another client, and with the guest's
// error if its boot failed.
func Connect(ctx context.Context, m Machine, boot *guestpb.Boot) (*Client, error) {
	hello := &guestpb.HelloRequest{
		Version: protocol.Version, Key: make([]byte, protocol.KeySize), Entropy: make([]byte, entropySize), Boot: boot,
	}
	_, _ = rand.Read(hello.Key) // never fails
	_, _ = rand.Read(hello.Entropy)
	c := newClient(m, protocol.Key(hello.Key))
	c.base = boot.GetBase()
	var last error
	for {
		hello.TimeUnixNano = time.Now().UnixNano()
		answer, err := c.rpc.Hello(ctx, hello)
		if err == nil {
			c.version = printable.Clip(answer.GuestVersion)
			return c, nil
		}
		if faultrpc.Answered(err) || ctx.Err() != nil {
			defer c.Close()
			if !faultrpc.Answered(err) {
				err = errors.Join(err, last)
			}
			return nil, faultrpc.Decode("greet guest", "", err)
		}
		last = err
		select {
		case <-ctx.Done():
		case <-time.After(redial):
		}
	}
}

func newClient(m Machine, key protocol.Key) *Client {
	cs := newConns(m)
	tr := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return cs.dial(ctx, Port) },
		Protocols:   protocol.Protocols(), HTTP2: protocol.HTTP2(),
		MaxResponseHeaderBytes: protocol.MaxHeaders, DisableCompression: true,
	}
	header := key.Header()
	withKey := roundTrip(func(r *http.Request) (*http.Response, error) {
		r.Header.Set(protocol.KeyHeader, header)
		return tr.RoundTrip(r)
	})
	const base = "http://guest"
	web := &http.Client{Transport: withKey}
	commands, files := cs.commandTransport(key), cs.fileTransport(key)
	c := &Client{transport: tr, data: []*http.Transport{commands, files}, conns: cs, key: key}
	opts := connect.WithClientOptions(protocol.ClientOptions(), connect.WithInterceptors(connect.UnaryInterceptorFunc(c.bounded)))
	c.rpc = guestpbconnect.NewGuestClient(web, base, opts)
	c.rooms = guestpbconnect.NewRoomsClient(web, base, opts)
	c.snapshots = guestpbconnect.NewSnapshotsClient(web, base, opts)
	c.shells = guestpbconnect.NewShellsClient(web, base, opts)
	c.ports = guestpbconnect.NewPortsClient(web, base, opts)
	c.mounts = guestpbconnect.NewMountsClient(web, base, opts)
	c.jobs = guestpbconnect.NewJobsClient(web, base, opts)
	c.commands = guestpbconnect.NewGuestClient(&http.Client{Transport: commands}, base, opts)
	c.files = guestpbconnect.NewFilesClient(toRooms{files}, base, opts, connect.WithSendMaxBytes(protocol.MaxFileMessage))
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Version is the release of the guest program.
func (c *Client) Version() string { return c.version }

// Ping returns when the guest answers.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.rpc.Ping(ctx, &guestpb.PingRequest{})
	return err
}

// SetTime sets the guest's clock and returns how far it was ahead of t.
func (c *Client) SetTime(ctx context.Context, t time.Time) (time.Duration, error) {
	r, err := c.rpc.SetTime(ctx, &guestpb.SetTimeRequest{TimeUnixNano: t.UnixNano()})
	return time.Duration(r.GetOffsetNanos()), err
}

// Shutdown asks the guest to end all processes (SIGTERM, then SIGKILL after grace; 0 means five
// seconds), sync its disks and power off. It returns once the guest accepts, before it is off.
func (c *Client) Shutdown(ctx context.Context, grace time.Duration) error {
	_, err := c.rpc.Shutdown(ctx, &guestpb.ShutdownRequest{GraceNanos: int64(grace)})
	return err
}

// Close drops all connections. The guest then ends everything it runs for this client.
func (c *Client) Close() error {
	c.conns.cancel()
	c.transport.CloseIdleConnections()
	c.closeIdle()
	return nil
}

// bounded is the interceptor of calls other than streams. It bounds them and explains their errors. Hello
// may take long.
func (c *Client) bounded(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if r.Spec().Procedure == guestpbconnect.GuestHelloProcedure {
			return next(ctx, r)
		}
		timeout, _ := ctx.Value(timeoutKey{}).(time.Duration)
		limit, cancel := context.WithTimeoutCause(ctx, cmp.Or(timeout, callTimeout), ErrSilent)
		defer cancel()
		a, err := next(limit, r)
		if err != nil {
			return nil, c.fault(limit, err)
		}
		return a, nil
	}
}

type timeoutKey struct{}

// within returns a context for a call that does not answer at once.
func within(ctx context.Context, timeout time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, timeout)
}

// fault returns the error of a call: the guest's own, or why it did not answer.
func (c *Client) fault(ctx context.Context, err error) error {
	if faultrpc.Answered(err) {
		return faultrpc.Decode("", "", err)
	}
	if context.Cause(ctx) == ErrSilent {
		return fault.New(fault.Timeout, "", "", ErrSilent).Advise("See `osaurus-sandbox status`; a silent guest is restarted.")
	}
	if over := c.conns.machine.Done(); over != nil && ctx.Err() == nil {
		select {
		case <-over:
			return fault.Newf(fault.Unavailable, "", "", "the machine ended before the call was answered").
				Advise("See `osaurus-sandbox status` for why; then run it again.")
		case <-time.After(endDelay):
		}
	}
	return faultrpc.Decode("", "", err)
}

// conns tracks a client's connections so that Close can end them.
type conns struct {
	machine Machine
	ctx     context.Context
	cancel  context.CancelFunc
}

func newConns(m Machine) *conns {
	ctx, cancel := context.WithCancel(context.Background())
	return &conns{machine: m, ctx: ctx, cancel: cancel}
}

func (c *conns) dial(ctx context.Context, port uint32) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	conn, err := c.machine.Dial(ctx, port)
	if err != nil {
		return nil, err
	}
	return tracked{conn, context.AfterFunc(c.ctx, func() { _ = conn.Close() })}, nil
}

// enter dials and says what the connection is for.
func (c *conns) enter(ctx context.Context, e protocol.DataHeader) (net.Conn, error) {
	conn, err := c.dial(ctx, EntryPort)
	if err != nil {
		return nil, err
	}
	// A guest that stops reading cannot block a caller past its deadline.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write(e.Bytes()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

type tracked struct {
	net.Conn
	stop func() bool
}

func (t tracked) Close() error {
	t.stop()
	return t.Conn.Close()
}
