package child

import (
	"context"
	"net"
	"os"
	"os/exec"
	"sync"
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
	crashAdvice = "Start it again. The daemon's log has what the process said, and ~/Library/Logs/DiagnosticReports its crash report: osaurus-sandbox-*.ips."
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
	const op = "start the machine's process"
	requests, theirs, err := vm.SocketPair()
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, cfg.Name, err)
	}
	defer theirs.Close()
	m := &machine{name: cfg.Name, cmd: d.Command(), exited: make(chan struct{}), requests: requests}
	m.Base = vm.NewBase(cfg.Name, m, sockets{m}, stuckAdvice)
	m.cmd.ExtraFiles = []*os.File{theirs, cfg.NIC}
	if err := m.cmd.Start(); err != nil {
		requests.Close()
		return nil, fault.New(fault.Unavailable, op, cfg.Name, err)
	}
	go func() {
		_ = m.cmd.Wait() // the machine's end says more
		close(m.exited)
	}()
	if _, err := m.call(ctx, request{Do: doNew, Config: &cfg}); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// machine is a machine in another process. Its end is that of the process.
type machine struct {
	*vm.Base
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	leave  sync.Once

	asking   sync.Mutex // serializes requests
	requests *net.UnixConn
}

var _ vm.Machine = (*machine)(nil)

// ask sends a request and returns the socket of its answers.
func (m *machine) ask(r request) (*net.UnixConn, error) {
	answers, theirs, err := vm.SocketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	m.asking.Lock()
	defer m.asking.Unlock()
	if err := send(m.requests, r, theirs); err != nil {
		answers.Close()
		return nil, silent(err)
	}
	return answers, nil
}

// call sends a request and returns the connection that its only answer brings, if any.
func (m *machine) call(ctx context.Context, r request) (vm.Conn, error) {
	answers, err := m.ask(r)
	if err != nil {
		return vm.Conn{}, err
	}
	defer answers.Close()
	defer context.AfterFunc(ctx, func() { _ = answers.SetReadDeadline(time.Unix(1, 0)) })()
	c, err := next(answers)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return c, err
}

// next returns the connection that the next answer brings, if any.
func next(answers *net.UnixConn) (vm.Conn, error) {
	var a answer
	socket, err := receive(answers, &a)
	if err != nil {
		return vm.Conn{}, silent(err)
	}
	return vm.Conn{UnixConn: socket, HostPort: a.HostPort, GuestPort: a.GuestPort}, a.Failure.err()
}

func silent(err error) error {
	return fault.Newf(fault.Execution, "", "", "the machine's process does not answer: %w", err)
}

// Start implements vm.Machine.
func (m *machine) Start(ctx context.Context) error {
	return m.Run(ctx, func() error {
		answers, err := m.ask(request{Do: doRun})
		if err == nil {
			go m.follow(answers)
		}
		return err
	})
}

// follow tracks the machine's state until its process has ended.
func (m *machine) follow(answers *net.UnixConn) {
	defer answers.Close()
	var last answer
	for !last.Over {
		var a answer
		if _, err := receive(answers, &a); err != nil {
			break
		}
		for _, w := range a.Warnings[len(last.Warnings):] {
			m.Warn(w)
		}
		if last = a; a.State == vm.Running {
			m.Started()
		}
	}
	m.End(func() error { // Release has waited for the process
		if !last.Over {
			return fault.Newf(fault.Execution, "run machine", m.name, "its process has failed: %v", m.cmd.ProcessState).Advise(crashAdvice)
		}
		return last.Failure.err()
	})
}

// ForceOff implements vm.Backend.
func (m *machine) ForceOff() bool {
	m.leave.Do(func() {
		_ = m.requests.Close() // the process ends its machine and itself
		time.AfterFunc(leaveTimeout, func() { _ = m.cmd.Process.Kill() })
	})
	return true
}

// Release implements vm.Backend. It ends the process.
func (m *machine) Release() {
	m.ForceOff()
	<-m.exited
}

// PressButton implements vm.Backend.
func (m *machine) PressButton(ctx context.Context) error {
	_, err := m.call(ctx, request{Do: doButton})
	return err
}

// sockets are a machine's vsock ports.
type sockets struct{ m *machine }

// Dial implements vm.Sockets.
func (s sockets) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	c, err := s.m.call(ctx, request{Do: doDial, Port: port})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Listen implements vm.Sockets.
func (s sockets) Listen(port uint32) (net.Listener, error) {
	answers, err := s.m.ask(request{Do: doListen, Port: port})
	if err != nil {
		return nil, err
	}
	if _, err := next(answers); err != nil {
		answers.Close()
		return nil, err
	}
	ended := make(chan struct{})
	l := vm.NewListener(&vsock.Addr{ContextID: vsock.Host, Port: port}, backlog, func() error {
		_ = answers.CloseWrite() // ends the request
		<-ended
		return nil
	})
	go func() {
		for c, err := next(answers); err == nil; c, err = next(answers) {
			if !l.Offer(c) {
				c.Close()
			}
		}
		answers.Close()
		close(ended)
		_ = l.Close()
	}()
	return l, nil
}

// Close implements vm.Sockets. All ports end with the process.
func (s sockets) Close() error { return nil }
