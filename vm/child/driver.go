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
	m := &machine{name: cfg.Name, cmd: d.Command(), exited: make(chan struct{}), queues: map[uint64]*vm.Listener{}}
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
	conns  *net.UnixConn
	ids    atomic.Uint64 // of queues

	exited   chan struct{} // closed when the process has ended
	released sync.Once
	forced   sync.Once

	mu      sync.Mutex
	outcome error                   // why the machine ended, as the child has said
	queues  map[uint64]*vm.Listener // nil when there are no more connections
}

var _ vm.Machine = (*machine)(nil)

// spawn starts the process.
func (m *machine) spawn(nic *os.File) error {
	calls, theirCalls, err := socketPair()
	if err != nil {
		return err
	}
	defer theirCalls.Close()
	conns, theirConns, err := socketPair()
	if err != nil {
		calls.Close()
		return err
	}
	defer theirConns.Close()
	m.cmd.ExtraFiles = []*os.File{theirCalls, theirConns}
	if nic != nil {
		m.cmd.ExtraFiles = append(m.cmd.ExtraFiles, nic)
	}
	if err := m.cmd.Start(); err != nil {
		return errors.Join(err, calls.Close(), conns.Close())
	}
	m.client = rpc.NewClientWithCodec(jsonrpc.NewClientCodec(calls))
	m.conns = conns.(*net.UnixConn)
	go m.receive()
	go func() {
		_ = m.cmd.Wait() // the machine's end says more
		close(m.exited)
	}()
	return nil
}

// call calls the child. If the context ends first, the answer is dropped.
func (m *machine) call(ctx context.Context, method string, args any, r *Answer) error {
	pending := m.client.Go(service+"."+method, args, r, make(chan *rpc.Call, 1))
	select {
	case <-pending.Done:
		if pending.Error != nil {
			return fault.Newf(fault.Execution, "", "", "the machine's process does not answer: %w", pending.Error)
		}
		return r.Failure.err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start implements vm.Machine.
func (m *machine) Start(ctx context.Context) error {
	const op = "start machine"
	err := m.Launch(op, func() error {
		go m.follow()
		go func() {
			err := m.call(context.Background(), "Start", nothing{}, &Answer{})
			m.mu.Lock()
			m.outcome = cmp.Or(m.outcome, err)
			m.mu.Unlock()
		}()
		return nil
	})
	if err != nil {
		return err
	}
	return m.AwaitStart(ctx, op, "")
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
		if known.State == vm.Running {
			m.Started()
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
			if m.call(ctx, "Kill", nothing{}, &Answer{}) != nil {
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
		_ = m.conns.Close()
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
	if err := m.call(ctx, "RequestStop", nothing{}, &Answer{}); err != nil {
		return fault.Wrap(op, m.name, err)
	}
	return nil
}

// sockets are a machine's vsock ports.
type sockets struct{ m *machine }

// Dial implements vm.Sockets.
func (s sockets) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	id, queue := s.m.expect(port, 1, func(uint64) {})
	defer queue.Close() // so that a connection that comes too late is closed
	args := DialArgs{ID: id, Port: port}
	args.Deadline, _ = ctx.Deadline()
	if err := s.m.call(ctx, "Dial", args, &Answer{}); err != nil {
		return nil, cmp.Or(errors.Unwrap(err), err) // Base adds the rest
	}
	return queue.Accept()
}

// Listen implements vm.Sockets.
func (s sockets) Listen(port uint32) (net.Listener, error) {
	id, queue := s.m.expect(port, backlog, func(id uint64) {
		_ = s.m.call(context.Background(), "Unlisten", id, &Answer{}) // fails if the process is gone
	})
	if err := s.m.call(context.Background(), "Listen", ListenArgs{id, port}, &Answer{}); err != nil {
		queue.Close()
		return nil, cmp.Or(errors.Unwrap(err), err)
	}
	return queue, nil
}

// expect returns a queue for the connections that the child sends under an ID.
func (m *machine) expect(port uint32, backlog int, release func(id uint64)) (uint64, *vm.Listener) {
	id := m.ids.Add(1)
	queue := vm.NewListener(&vsock.Addr{ContextID: vsock.Host, Port: port}, backlog, func() error {
		m.mu.Lock()
		delete(m.queues, id)
		m.mu.Unlock()
		release(id)
		return nil
	})
	m.mu.Lock()
	closed := m.queues == nil
	if !closed {
		m.queues[id] = queue
	}
	m.mu.Unlock()
	if closed {
		queue.Close()
	}
	return id, queue
}

// receive queues the connections that the child sends, until it has ended.
func (m *machine) receive() {
	for {
		id, c, err := receiveConn(m.conns)
		if err != nil {
			_ = sockets{m}.Close()
			return
		}
		m.mu.Lock()
		queue := m.queues[id]
		m.mu.Unlock()
		if queue == nil || !queue.Offer(c) {
			c.Close()
		}
	}
}

// Close implements vm.Sockets.
func (s sockets) Close() error {
	s.m.mu.Lock()
	queues := s.m.queues
	s.m.queues = nil
	s.m.mu.Unlock()
	for _, queue := range queues {
		queue.Close()
	}
	return nil
}
