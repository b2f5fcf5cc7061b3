package child

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// followEvery is how often a state is compared with the one that the parent knows.
const followEvery = 20 * time.Millisecond

// Serve is the child: it runs one machine of a driver for the parent, and returns when both are
// done with it. The machine ends with its parent.
func Serve(d vm.Driver) error {
	calls, err := inherited(callsFD)
	if err != nil {
		return err
	}
	defer calls.Close()
	files, err := inherited(descriptorsFD)
	if err != nil {
		return err
	}
	defer files.Close()
	debug.SetTraceback("crash") // else macOS writes no crash report

	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // the parent decides
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &Machine{driver: d, ctx: ctx, cancel: cancel, files: files.(*net.UnixConn), cancels: map[uint64]context.CancelFunc{}, listeners: map[uint64]net.Listener{}}
	server := rpc.NewServer()
	if err := server.RegisterName(service, s); err != nil {
		return err
	}
	server.ServeCodec(jsonrpc.NewServerCodec(ending{calls, s.end})) // until the parent closes it or is gone
	if s.machine == nil {
		return nil
	}
	err = s.machine.Close()
	s.relays.Wait()
	return err
}

// end ends all calls that run: the parent is gone.
func (s *Machine) end() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// ending calls a function when there is nothing more to read.
type ending struct {
	net.Conn
	end func()
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if err != nil {
		e.end()
	}
	return n, err
}

// inherited returns a connection that the process was started with.
func inherited(fd uintptr) (net.Conn, error) {
	unix.CloseOnExec(int(fd))
	f := os.NewFile(fd, "parent")
	defer f.Close()
	return net.FileConn(f)
}

// Machine serves the calls of the parent. Its exported methods are those of net/rpc.
type Machine struct {
	driver vm.Driver
	ctx    context.Context // ends with the parent
	cancel context.CancelFunc
	files  *net.UnixConn
	tokens atomic.Uint64
	relays sync.WaitGroup

	machine vm.Machine // set by New, before other calls

	mu        sync.Mutex
	cancels   map[uint64]context.CancelFunc
	listeners map[uint64]net.Listener
}

// New makes the machine.
func (s *Machine) New(cfg *vm.Config, r *Answer) error {
	if cfg.NIC != nil {
		unix.CloseOnExec(nicFD)
		cfg.NIC = os.NewFile(nicFD, "nic")
	}
	m, err := s.driver.New(s.ctx, *cfg)
	s.machine, r.Failure = m, newFailure(err)
	return nil
}

// Start starts the machine.
func (s *Machine) Start(call uint64, r *Answer) error {
	ctx, done := s.cancelable(call)
	defer done()
	r.Failure = newFailure(s.machine.Start(ctx))
	return nil
}

// RequestStop presses the power button.
func (s *Machine) RequestStop(call uint64, r *Answer) error {
	ctx, done := s.cancelable(call)
	defer done()
	r.Failure = newFailure(s.machine.RequestStop(ctx))
	return nil
}

// Kill begins to end the machine.
func (s *Machine) Kill(_ uint64, r *Answer) error {
	r.Failure = newFailure(s.machine.Kill(s.ctx))
	return nil
}

// Follow returns the machine's state once it is another one than the parent knows.
func (s *Machine) Follow(known vm.State, r *Answer) error {
	for s.machine.State() == known && s.ctx.Err() == nil {
		select {
		case <-s.machine.Done():
			r.State, r.Failure = s.machine.State(), newFailure(s.machine.Err())
			return nil
		case <-s.ctx.Done():
		case <-time.After(followEvery):
		}
	}
	r.State = s.machine.State()
	if r.State.Ended() {
		r.Failure = newFailure(s.machine.Err())
	}
	return nil
}

// Dial connects to a port of the guest.
func (s *Machine) Dial(args DialArgs, r *Answer) error {
	ctx, done := s.cancelable(args.Call)
	defer done()
	c, err := s.machine.Dial(ctx, args.Port)
	if err == nil {
		err = s.pass(c, r)
	}
	r.Failure = newFailure(err)
	return nil
}

// Listen listens on a port of the host.
func (s *Machine) Listen(args ListenArgs, r *Answer) error {
	l, err := s.machine.Listen(args.Port)
	if err == nil {
		s.mu.Lock()
		s.listeners[args.ID] = l
		s.mu.Unlock()
	}
	r.Failure = newFailure(err)
	return nil
}

// Accept returns the next connection to a listener.
func (s *Machine) Accept(id uint64, r *Answer) error {
	s.mu.Lock()
	l := s.listeners[id]
	s.mu.Unlock()
	err := net.ErrClosed
	if l != nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			err = s.pass(c, r)
		}
	}
	r.Failure = newFailure(err)
	return nil
}

// Unlisten closes a listener.
func (s *Machine) Unlisten(id uint64, r *Answer) error {
	s.mu.Lock()
	l := s.listeners[id]
	delete(s.listeners, id)
	s.mu.Unlock()
	if l != nil {
		r.Failure = newFailure(l.Close())
	}
	return nil
}

// Cancel ends the context of a call.
func (s *Machine) Cancel(call uint64, _ *Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancels[call]; cancel != nil {
		cancel()
	}
	return nil
}

func (s *Machine) cancelable(call uint64) (context.Context, func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	s.cancels[call] = cancel
	s.mu.Unlock()
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, call)
	}
}

// pass gives a connection to the parent. Afterwards it is the parent's alone.
func (s *Machine) pass(c net.Conn, r *Answer) error {
	f, err := s.descriptor(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer f.Close()
	r.Descriptor = s.tokens.Add(1)
	r.HostPort, r.GuestPort = port(c.LocalAddr()), port(c.RemoteAddr())
	return sendDescriptor(s.files, r.Descriptor, f)
}

func port(a net.Addr) uint32 {
	if v, ok := a.(*vsock.Addr); ok {
		return v.Port
	}
	return 0
}

// descriptor returns a connection's descriptor, or that of a socket through which this process
// relays if the connection has none.
func (s *Machine) descriptor(c net.Conn) (*os.File, error) {
	if socket, ok := c.(syscall.Conn); ok {
		f, err := duplicate(socket)
		if err != nil {
			return nil, err
		}
		return f, c.Close()
	}
	near, far, err := socketPair()
	if err != nil {
		return nil, err
	}
	s.relays.Go(func() { relay(c, near.(*net.UnixConn)) })
	return far, nil
}

func duplicate(socket syscall.Conn) (f *os.File, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var copied int
	failed := raw.Control(func(fd uintptr) { copied, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err := cmp.Or(failed, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(copied), "vsock"), nil
}

// relay copies both ways until both directions have ended or the parent has closed its end.
func relay(guest net.Conn, parent *net.UnixConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(parent, guest)
		_ = parent.CloseWrite()
	}()
	_, _ = io.Copy(guest, parent)
	if half, ok := guest.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		awaitClose(parent, done)
	}
	_ = guest.Close()
	<-done
	_ = parent.Close()
}

// awaitClose returns when the other end of a socket is closed, not only for writing.
func awaitClose(c *net.UnixConn, done <-chan struct{}) {
	raw, err := c.SyscallConn()
	for ended := err != nil; !ended; {
		select {
		case <-done:
			return
		case <-time.After(followEvery):
		}
		if failed := raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd)}}
			_, _ = unix.Poll(fds, 0)
			ended = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		}); failed != nil {
			return
		}
	}
}
