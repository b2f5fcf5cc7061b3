package child

import (
	"context"
	"fmt"
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
	return s.machine.Close()
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

// Kill ends the machine. It may come before Start, which then fails.
func (s *Machine) Kill(_ uint64, r *Answer) error {
	r.Failure = newFailure(s.machine.Close())
	return nil
}

// Follow returns the machine's state and warnings once they are others than the parent knows.
func (s *Machine) Follow(known Known, r *Answer) error {
	for !r.Over && s.ctx.Err() == nil && s.machine.State() == known.State && len(s.machine.Warnings()) == known.Warnings {
		select {
		case <-s.machine.Done():
			r.Over, r.Failure = true, newFailure(s.machine.Err())
		case <-s.ctx.Done():
		case <-time.After(followEvery):
		}
	}
	r.State, r.Warnings = s.machine.State(), s.machine.Warnings()
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
	defer c.Close()
	socket, ok := c.(interface{ File() (*os.File, error) })
	if !ok {
		return fmt.Errorf("%T has no descriptor", c)
	}
	f, err := socket.File()
	if err != nil {
		return err
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
