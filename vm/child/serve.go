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
	"syscall"
	"time"

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
	conns, err := inherited(connsFD)
	if err != nil {
		return err
	}
	defer conns.Close()
	debug.SetTraceback("crash") // else macOS writes no crash report

	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // the parent decides
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &Machine{driver: d, ctx: ctx, conns: conns.(*net.UnixConn), listeners: map[uint64]net.Listener{}}
	server := rpc.NewServer()
	if err := server.RegisterName(service, s); err != nil {
		return err
	}
	server.ServeCodec(jsonrpc.NewServerCodec(ending{calls, cancel})) // until the parent closes it or is gone
	if s.machine == nil {
		return nil
	}
	return s.machine.Close()
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
	conns  *net.UnixConn

	machine vm.Machine // set by New, before other calls

	mu        sync.Mutex
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
func (s *Machine) Start(_ nothing, r *Answer) error {
	r.Failure = newFailure(s.machine.Start(s.ctx))
	return nil
}

// RequestStop presses the power button.
func (s *Machine) RequestStop(_ nothing, r *Answer) error {
	r.Failure = newFailure(s.machine.RequestStop(s.ctx))
	return nil
}

// Kill ends the machine. It may come before Start, which then fails.
func (s *Machine) Kill(_ nothing, r *Answer) error {
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

// Dial connects to a port of the guest. A caller who gives up before the deadline closes the
// connection that comes.
func (s *Machine) Dial(args DialArgs, r *Answer) error {
	ctx := s.ctx
	if !args.Deadline.IsZero() {
		limited, cancel := context.WithDeadline(ctx, args.Deadline)
		defer cancel()
		ctx = limited
	}
	c, err := s.machine.Dial(ctx, args.Port)
	if err == nil {
		err = s.pass(args.ID, c)
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
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_ = s.pass(args.ID, c) // fails if the parent is gone
			}
		}()
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

// pass gives a connection to the parent. Afterwards it is the parent's alone.
func (s *Machine) pass(id uint64, c net.Conn) error {
	defer c.Close()
	socket, ok := c.(vm.Conn)
	if !ok {
		return fmt.Errorf("%T has no descriptor", c)
	}
	return sendConn(s.conns, id, socket)
}
