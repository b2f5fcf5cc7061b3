package child

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/vsock"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

const (
	// leaveTimeout is how long a child may take to end its machine before it is killed.
	leaveTimeout = 10 * time.Second
	// backlog is how many connections of a guest wait for Accept.
	backlog = 128
	// guestCID is the guest's vsock address in the addresses of connections.
	guestCID = 3

	stuckAdvice = "End the process of its virtual machine by hand."
)

// Driver makes machines of another driver, each in a process of its own.
type Driver struct {
	// Driver answers for what machines can do.
	vm.Driver
	// Command returns a program that calls Serve with the same driver. Its standard error is the
	// caller's to set.
	Command func() *exec.Cmd
}

// New implements vm.Driver. It starts the process.
func (d *Driver) New(ctx context.Context, cfg vm.Config) (vm.Machine, error) {
	m := &machine{name: cfg.Name, cmd: d.Command(), exited: make(chan struct{}), running: make(chan struct{}), listeners: map[uint64]*vm.Listener{}}
	m.Base = vm.NewBase(cfg.Name, m, sockets{m}, stuckAdvice)
	if err := m.spawn(cfg.NIC); err != nil {
		return nil, fault.New(fault.Unavailable, "start the machine's process", cfg.Name, err)
	}
	cfg.Shares = slices.Clone(cfg.Shares)
	for i := range cfg.Shares {
		cfg.Shares[i].Subtrees = nil // cannot change in another process
	}
	answer := &Answer{}
	if err := m.call(ctx, "New", struct {
		vm.Config
		NIC *struct{} // replaces Config's: only whether there is one
	}{cfg, nicMark(cfg.NIC)}, answer); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

func nicMark(f *os.File) *struct{} {
	if f == nil {
		return nil
	}
	return &struct{}{}
}

// machine is a machine in another process.
type machine struct {
	*vm.Base
	name   string
	cmd    *exec.Cmd
	client *rpc.Client
	files  *descriptors
	calls  atomic.Uint64

	running  chan struct{} // closed when its processors run
	exited   chan struct{} // closed when the process has ended
	released sync.Once
	forced   sync.Once

	mu        sync.Mutex
	outcome   error // why the machine ended, as the child has said
	closed    bool
	listeners map[uint64]*vm.Listener
}

var _ vm.Machine = (*machine)(nil)

// spawn starts the process.
func (m *machine) spawn(nic *os.File) error {
	calls, theirCalls, err := socketPair()
	if err != nil {
		return err
	}
	defer theirCalls.Close()
	files, theirFiles, err := socketPair()
	if err != nil {
		calls.Close()
		return err
	}
	defer theirFiles.Close()
	m.cmd.ExtraFiles = []*os.File{theirCalls, theirFiles}
	if nic != nil {
		m.cmd.ExtraFiles = append(m.cmd.ExtraFiles, nic)
	}
	if err := m.cmd.Start(); err != nil {
		return errors.Join(err, calls.Close(), files.Close())
	}
	m.client = rpc.NewClientWithCodec(jsonrpc.NewClientCodec(calls))
	m.files = newDescriptors(files.(*net.UnixConn))
	go m.files.receive()
	go func() {
		_ = m.cmd.Wait() // the machine's end says more
		close(m.exited)
	}()
	return nil
}

// call calls the child. If the context ends first, the child is told, and the answer is dropped.
func (m *machine) call(ctx context.Context, method string, args any, r *Answer) error {
	pending := m.client.Go(service+"."+method, args, r, make(chan *rpc.Call, 1))
	select {
	case <-pending.Done:
		if pending.Error != nil {
			return fault.Newf(fault.Execution, "", "", "the machine's process does not answer: %w", pending.Error)
		}
		return r.Failure.err()
	case <-ctx.Done():
		id := args
		if dial, ok := args.(DialArgs); ok {
			id = dial.Call
		}
		m.client.Go(service+".Cancel", id, &Answer{}, make(chan *rpc.Call, 1))
		go func() { // close a connection that comes too late
			<-pending.Done
			if r.Descriptor != 0 && pending.Error == nil {
				if c, err := m.files.take(r.Descriptor); err == nil {
					c.Close()
				}
			}
		}()
		return ctx.Err()
	}
}

// Start implements vm.Machine.
func (m *machine) Start(ctx context.Context) error {
	const op = "start machine"
	err := m.Launch(op, func() error {
		go m.follow()
		go func() {
			err := m.call(context.Background(), "Start", m.calls.Add(1), &Answer{})
			m.mu.Lock()
			m.outcome = cmp.Or(m.outcome, err)
			m.mu.Unlock()
		}()
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-m.running:
		return nil
	case <-m.Done():
		return m.FailedStart(op)
	case <-ctx.Done():
		return m.AbortStart(op, fault.Wrap(op, m.name, ctx.Err()))
	}
}

// follow tracks the machine's state until its process has ended.
func (m *machine) follow() {
	known := Known{State: vm.Stopped}
	var crashed bool
	for {
		answer := &Answer{}
		err := m.call(context.Background(), "Follow", known, answer)
		if crashed = answer.State == ""; crashed {
			break
		}
		for _, w := range answer.Warnings[known.Warnings:] {
			m.Warn(w)
		}
		known = Known{answer.State, len(answer.Warnings)}
		if known.State == vm.Running && m.Started() {
			close(m.running)
		}
		if answer.Over {
			m.mu.Lock()
			m.outcome = cmp.Or(err, m.outcome)
			m.mu.Unlock()
			break
		}
	}
	m.End(func() error { // Release has waited for the process
		m.mu.Lock()
		defer m.mu.Unlock()
		if crashed {
			return fault.Newf(fault.Execution, "run machine", m.name, "its process has failed: %v", m.cmd.ProcessState).
				Advise("Start it again. The daemon's log has what the process said, and ~/Library/Logs/DiagnosticReports its crash report: osaurus-sandbox-*.ips.")
		}
		return m.outcome
	})
}

// ForceOff implements vm.Backend.
func (m *machine) ForceOff() bool {
	m.forced.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
			defer cancel()
			if m.call(ctx, "Kill", m.calls.Add(1), &Answer{}) != nil {
				_ = m.cmd.Process.Kill()
			}
		}()
	})
	return true
}

// Release implements vm.Backend. It ends the process.
func (m *machine) Release() {
	m.released.Do(func() {
		_ = sockets{m}.Close()
		_ = m.client.Close()
		select {
		case <-m.exited:
		case <-time.After(leaveTimeout):
			_ = m.cmd.Process.Kill()
			<-m.exited
		}
		_ = m.files.conn.Close()
	})
}

// Stalled implements vm.Machine. Drivers whose machines pause by themselves need no child.
func (*machine) Stalled() error { return nil }

// RequestStop implements vm.Machine.
func (m *machine) RequestStop(ctx context.Context) error {
	const op = "press power button"
	if m.State() != vm.Running {
		return m.StateError(op)
	}
	if err := m.call(ctx, "RequestStop", m.calls.Add(1), &Answer{}); err != nil {
		return fault.Wrap(op, m.name, err)
	}
	return nil
}

// sockets are a machine's vsock ports.
type sockets struct{ m *machine }

// Dial implements vm.Sockets.
func (s sockets) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	answer := &Answer{}
	if err := s.m.call(ctx, "Dial", DialArgs{s.m.calls.Add(1), port}, answer); err != nil {
		return nil, cmp.Or(errors.Unwrap(err), err) // Base adds the rest
	}
	return s.m.adopt(answer)
}

// adopt returns the connection that an answer speaks of.
func (m *machine) adopt(a *Answer) (net.Conn, error) {
	c, err := m.files.take(a.Descriptor)
	if err != nil {
		return nil, err
	}
	return conn{c.(*net.UnixConn), a.HostPort, a.GuestPort}, nil
}

// Listen implements vm.Sockets.
func (s sockets) Listen(port uint32) (net.Listener, error) {
	id := s.m.calls.Add(1)
	if err := s.m.call(context.Background(), "Listen", ListenArgs{id, port}, &Answer{}); err != nil {
		return nil, cmp.Or(errors.Unwrap(err), err) // Base adds the rest
	}
	l := vm.NewListener(&vsock.Addr{ContextID: vsock.Host, Port: port}, backlog, func() error {
		s.m.mu.Lock()
		delete(s.m.listeners, id)
		s.m.mu.Unlock()
		if err := s.m.call(context.Background(), "Unlisten", id, &Answer{}); err != nil && !s.m.isOver() {
			return err
		}
		return nil
	})
	s.m.mu.Lock()
	over := s.m.closed
	if !over {
		s.m.listeners[id] = l
	}
	s.m.mu.Unlock()
	if over {
		l.Close()
		return nil, net.ErrClosed
	}
	go s.m.accept(id, l)
	return l, nil
}

func (m *machine) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// accept queues the guest's connections to a listener.
func (m *machine) accept(id uint64, l *vm.Listener) {
	for {
		answer := &Answer{}
		if m.call(context.Background(), "Accept", id, answer) != nil {
			return
		}
		c, err := m.adopt(answer)
		if err != nil {
			return
		}
		if !l.Offer(c) {
			c.Close()
		}
	}
}

// Close implements vm.Sockets.
func (s sockets) Close() error {
	s.m.mu.Lock()
	s.m.closed = true
	listeners := s.m.listeners
	s.m.listeners = nil
	s.m.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	return nil
}

// conn is a connection with vsock addresses.
type conn struct {
	*net.UnixConn
	host, guest uint32 // ports
}

// LocalAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c conn) LocalAddr() net.Addr { return &vsock.Addr{ContextID: vsock.Host, Port: c.host} }

// RemoteAddr implements net.Conn. It is a *vsock.Addr of mdlayher/vsock.
func (c conn) RemoteAddr() net.Addr { return &vsock.Addr{ContextID: guestCID, Port: c.guest} }
